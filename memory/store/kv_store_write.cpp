#include <cassert>

#include "memory/store/kv_store_parts.hpp"
#include "memory/store/stored_record.hpp"

namespace rondo {

namespace store {

std::array<std::byte, 16> sum_of(const StoreName& name, size_t layer, const MemoryParts& bytes) {
    uint64_t seed = 0;
    std::memcpy(&seed, name.data(), sizeof(seed));
    const uint64_t sum = checksum_of(bytes, seed + layer);
    std::array<std::byte, 16> proof{};
    std::memcpy(proof.data(), &sum, sizeof(sum));
    return proof;
}

std::array<std::byte, 20> beside(const StoreName& name, size_t layer) {
    std::array<std::byte, 20> bytes{};
    const auto number = static_cast<uint32_t>(layer);
    std::ranges::copy(name, bytes.begin());
    std::memcpy(bytes.data() + name.size(), &number, sizeof(number));
    return bytes;
}

}  // namespace store

StoredRecord KvStore::record_of(const RecordHeader& header, double saved_seconds) const {
    StoredRecord record;
    record.name = header.name;
    record.before = header.before;
    record.tenant = header.tenant;
    record.group = header.group;
    record.exactness = header.exactness;
    record.tokens_before = header.tokens_before;
    record.tokens = static_cast<int32_t>(header.ids.size());
    record.layers = static_cast<int32_t>(header.layers.size());
    record.epoch = header.epoch;
    record.place.bytes = header.record_bytes();
    record.saved_seconds = saved_seconds;
    record.used_at = options_.now();
    return record;
}

KvStore::Begun KvStore::begin(RecordHeader header, double saved_seconds, std::vector<StoreName> waypoints) {
    assert(header.kind == options_.kind);
    header.epoch = epoch_of(header.tenant);
    header.lay_out();
    StoredRecord record = record_of(header, saved_seconds);
    record.waypoints = std::move(waypoints);
    const auto refused = [this](Refusal refusal) {
        ++counts_.refused[static_cast<size_t>(refusal)];
        return Begun{nullptr, refusal};
    };
    if (index_.find(record.name) != nullptr || writing_.contains(record.name)) return refused(Refusal::stored_already);
    if (record.place.bytes + 2 * disk_alignment > options_.bytes_max) return refused(Refusal::too_large);
    const bool same_day = options_.now() / (24 * 3600) == day_;
    const uint64_t today = record.place.bytes + (same_day ? written_today_ : 0);
    if (options_.written_a_day_max > 0 && today > options_.written_a_day_max) return refused(Refusal::written_enough);
    if (!remove({})) return refused(Refusal::disk);  // what leaves may have its name
    if (const Refusal refusal = make_room(record); refusal != Refusal::none) return refused(refusal);
    const auto place = segments_->append(record.place.bytes);
    if (!place) return refused(Refusal::disk);
    record.place = *place;
    // Whoever lets go of it first, on whatever thread: its space comes back here.
    const WritingPtr writing(new Writing{record, std::move(header), {}, {}, false},
                             [post = options_.post, alive = alive_, this](Writing* ended) {
                                 post([alive, this, owned = std::shared_ptr<Writing>(ended)] {
                                     if (!*alive) return;
                                     writing_.erase(owned->record.name);
                                     if (!owned->found) give_back(owned->record.place);
                                 });
                             });
    writing_[record.name] = writing.get();
    if (keys_) {
        auto key = key_of(record);
        if (!key) return refused(Refusal::disk);
        writing->key.emplace(*key);
    }
    return {writing, Refusal::none};
}

void KvStore::write_layer(const WritingPtr& writing, size_t layer, std::span<std::byte> bytes, Done done) {
    RecordHeader& header = writing->header;
    assert(layer < header.layers.size() && bytes.size() == round_up<uint64_t>(header.layer_bytes(), disk_alignment));
    const StoreName& name = writing->record.name;
    done = posted<Status>(std::move(done));
    if (writing->key) {
        const SealKey::Number number{writing->record.place.offset, static_cast<uint32_t>(layer)};
        auto proof = writing->key->seal(number, store::beside(name, layer), bytes);
        if (!proof) return done(proof.error());
        header.layers[layer].proof = *proof;
    } else {
        header.layers[layer].proof = store::sum_of(name, layer, {bytes});
    }
    counts_.bytes_written += bytes.size();
    segments_->write(writing->record.place, header.layers[layer].offset, bytes,
                     [writing, done = std::move(done)](Status end) { done(std::move(end)); });
}

void KvStore::finish(const WritingPtr& writing, Done done) {
    const std::vector<std::byte> header = writing->header.write();
    writing->bytes = AlignedBytes(header.size());
    const std::span<std::byte> bytes = writing->bytes.span();
    std::ranges::copy(header, bytes.begin());
    if (writing->key) {
        const auto open = bytes.first(RecordHeader::proof_at);
        const SealKey::Number number{writing->record.place.offset, store::header_number};
        const auto proof = writing->key->seal(number, open, bytes.subspan(RecordHeader::sealed_from));
        if (!proof) return posted<Status>(std::move(done))(proof.error());
        std::ranges::copy(*proof, bytes.begin() + RecordHeader::proof_at);
    }
    counts_.bytes_written += bytes.size();
    const Done synced = posted<Status>([this, writing, done](const Status& end) {
        if (!end) return done(end);
        commit(writing, done);
    });
    const Done written = posted<Status>([this, writing, done, synced](const Status& end) {
        if (!end) return done(end);
        segments_->sync(writing->record.place, synced);
    });
    segments_->write(writing->record.place, 0, bytes, [writing, written](Status end) { written(std::move(end)); });
}

void KvStore::put(Manifest::Changes& changes, const StoredRecord& record) const {
    const std::vector<std::byte> value = write_stored_record({record, kind_});
    changes.put(store::key_of(store::record_letter, record.name), store::text_of(value));
}

/// The bytes are durable; now they are found.
void KvStore::commit(const WritingPtr& writing, const Done& done) {
    const StoredRecord& record = writing->record;
    if (record.epoch != epoch_of(record.tenant))
        return done(make_error(ErrorCode::cancelled, "the tenant of a record was forgotten while it was written"));
    Manifest::Changes changes;
    put(changes, record);
    count_day(changes, record.place.bytes);
    if (const Status committed = manifest_->commit(std::move(changes)); !committed) {
        leaving_.push_back(record);  // the manifest may have it nevertheless, and then it needs its space
        writing->found = true;
        return done(committed);
    }
    writing->found = index_.add(record);
    ++counts_.written;
    done(Status::ok());
}

}  // namespace rondo
