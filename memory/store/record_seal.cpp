#include "memory/store/record_seal.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "memory/store/manifest_keys.hpp"

namespace rondo::store {

namespace {

/// Of what is sealed in a record; layers have numbers of their own.
constexpr uint32_t header_number = 0xffff'ffff;

/// The proof of a layer that is not sealed: of this record's and no other's.
SealKey::Proof sum_of(const StoreName& name, size_t layer, const MemoryParts& bytes) {
    uint64_t seed = 0;
    std::memcpy(&seed, name.data(), sizeof(seed));
    const uint64_t sum = checksum_of(bytes, seed + layer);
    SealKey::Proof proof{};
    std::memcpy(proof.data(), &sum, sizeof(sum));
    return proof;
}

/// What is put beside a sealed layer, so that it is taken for no other.
std::array<std::byte, 20> beside(const StoreName& name, size_t layer) {
    std::array<std::byte, 20> bytes{};
    const auto number = static_cast<uint32_t>(layer);
    std::ranges::copy(name, bytes.begin());
    std::memcpy(bytes.data() + name.size(), &number, sizeof(number));
    return bytes;
}

SealKey::Number number_of(const StoredRecord& record, size_t layer) {
    return {record.place.offset, static_cast<uint32_t>(layer)};
}

}  // namespace

Result<SealKey> key_of_records(const StoreKeys& keys, const Segments::Salt& salt, const StoreName& tenant) {
    return keys.key("kv", salt, text_of(tenant));
}

Result<SealKey::Proof> seal_layer(const StoredRecord& record, size_t layer, const SealKey* key,
                                  std::span<std::byte> bytes) {
    if (key == nullptr) return sum_of(record.name, layer, {bytes});
    return key->seal(number_of(record, layer), beside(record.name, layer), bytes);
}

Status open_layer(const StoredRecord& record, const RecordHeader& header, size_t layer, const SealKey* key,
                  const MemoryParts& bytes) {
    const auto& proof = header.layers[layer].proof;
    if (key != nullptr) return key->open(number_of(record, layer), beside(record.name, layer), bytes, proof);
    return sum_of(record.name, layer, bytes) == proof ? Status::ok() : Status(not_what_was_written());
}

Result<AlignedBytes> seal_header(const StoredRecord& record, const RecordHeader& header, const SealKey* key) {
    const std::vector<std::byte> written = header.write();
    AlignedBytes made(written.size());
    const std::span<std::byte> bytes = made.span();
    std::ranges::copy(written, bytes.begin());
    if (key == nullptr) return made;
    const auto open = bytes.first(RecordHeader::proof_at);
    const SealKey::Number number{record.place.offset, header_number};
    RONDO_ASSIGN(const auto proof, key->seal(number, open, bytes.subspan(RecordHeader::sealed_from)));
    std::ranges::copy(proof, bytes.begin() + RecordHeader::proof_at);
    return made;
}

Result<RecordHeader> open_header(const StoredRecord& known, const SealKey* key, std::span<std::byte> bytes) {
    if (key != nullptr) {
        SealKey::Proof proof{};
        const auto proof_at = bytes.subspan(RecordHeader::proof_at, proof.size());
        std::ranges::copy(proof_at, proof.begin());
        std::ranges::fill(proof_at, std::byte{0});
        RONDO_TRY(key->open({known.place.offset, header_number}, bytes.first(RecordHeader::proof_at),
                            {bytes.subspan(RecordHeader::sealed_from)}, proof));
    }
    RONDO_ASSIGN(RecordHeader header, RecordHeader::read(bytes));
    const bool same = header.name == known.name && header.before == known.before && header.tenant == known.tenant &&
                      header.group == known.group && header.exactness == known.exactness &&
                      header.tokens_before == known.tokens_before && std::ssize(header.ids) == known.tokens &&
                      std::ssize(header.layers) == known.layers && header.record_bytes() == known.place.bytes;
    if (!same) return not_what_was_written();
    return header;
}

Error not_what_was_written() {
    return make_error(ErrorCode::corrupt, "a stored record is not what was written");
}

}  // namespace rondo::store
