#include "memory/store/shelf.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "memory/store/byte_io.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/random_bytes.hpp"
#include "memory/store/stored_record.hpp"

namespace rondo {

namespace {

// A value: its version, the tenant's name, then
//   plain    the bytes, and a checksum of everything before it
//   sealed   a salt for its key, the proof, the sealed bytes
// A newer version leads by a larger number, whatever follows.
constexpr uint8_t plain = 1, sealed = 2;
constexpr size_t tenant_bytes = sizeof(StoreName), salt_bytes = 32, proof_bytes = sizeof(SealKey::Proof);
constexpr const char* use_of_keys = "shelf";
constexpr char unlisted_letter = 'u';  // of the manifest's keys; nobody else reads or writes these
constexpr std::array letters = {store::head_letter, store::body_letter, store::refers_letter};

Error damage() {
    return make_error(ErrorCode::corrupt, "a stored conversation is not what was written");
}

Status within(size_t size, size_t most, const std::string& what, const char* unit) {
    if (size <= most) return Status::ok();
    return make_error(ErrorCode::out_of_range,
                      what + ' ' + std::to_string(size) + ' ' + unit + ", must be at most " + std::to_string(most));
}

/// Another one for each place in the manifest, so that bytes of another place do not pass.
uint64_t seed_of(char letter, const StoreName& name) {
    const std::string key = store::key_of(letter, name);
    return checksum_of(std::as_bytes(std::span(key)));
}

/// What other versions put there under other keys is left alone.
bool is_key_of_name(std::string_view key) {
    return key.size() == 1 + sizeof(StoreName);
}

/// What is put beside sealed bytes, so that they are taken for no others.
std::vector<std::byte> beside(char letter, const StoreName& name, std::span<const std::byte> tenant) {
    RecordWriter out;
    out.put(letter);
    out.put(std::span<const std::byte>(name));
    out.put(tenant);
    return out.take();
}

}  // namespace

StoreName Shelf::name(const std::optional<StoreKeys>& keys, std::string_view tenant, std::string_view id) {
    RecordWriter out;
    out.put(uint64_t{tenant.size()});  // so that no two pairs look the same
    out.put(std::as_bytes(std::span(tenant)));
    out.put(std::as_bytes(std::span(id)));
    return store_name(keys, "conversation", out.bytes());
}

/// A key is used once, for its salt is: so the seal's number may always be 0.
Result<std::string> Shelf::write(char letter, const StoreName& name, const StoreName& tenant,
                                 std::span<const std::byte> bytes) const {
    RecordWriter out;
    out.put(keys_->has_value() ? sealed : plain);
    out.put(std::span<const std::byte>(tenant));
    if (!keys_->has_value()) {
        out.put(bytes);
        out.put(checksum_of(out.bytes(), seed_of(letter, name)));
        return std::string(store::text_of(out.bytes()));
    }
    std::array<std::byte, salt_bytes> salt{};
    if (!fill_random(salt)) return make_error(ErrorCode::internal, "no random numbers for a conversation's salt");
    out.put(std::span<const std::byte>(salt));
    const size_t proof_at = out.size();
    out.put(std::span<const std::byte>(SealKey::Proof{}));
    out.put(bytes);
    std::vector<std::byte> value = out.take();
    RONDO_ASSIGN(const SealKey key, (*keys_)->key(use_of_keys, salt, store::text_of(tenant)));
    RONDO_ASSIGN(const SealKey::Proof proof,
                 key.seal({}, beside(letter, name, tenant), std::span(value).subspan(proof_at + proof_bytes)));
    std::memcpy(value.data() + proof_at, proof.data(), proof.size());
    return std::string(store::text_of(value));
}

Result<std::vector<std::byte>> Shelf::open(char letter, const StoreName& name, std::string_view value) const {
    const auto bytes = std::as_bytes(std::span(value));
    RecordReader in(bytes);
    const auto version = in.take<uint8_t>();
    const auto tenant = in.take(tenant_bytes);
    if (is_newer(value)) return make_error(ErrorCode::unsupported, "a newer version wrote a stored conversation");
    // What is plain is refused where there are keys: anybody could have put it there.
    if (version != (keys_->has_value() ? sealed : plain)) return damage();
    if (!keys_->has_value()) {
        if (in.left() < sizeof(uint64_t)) return damage();
        const auto whole = in.take(in.left() - sizeof(uint64_t));
        const auto summed = bytes.first(bytes.size() - sizeof(uint64_t));
        if (in.take<uint64_t>() != checksum_of(summed, seed_of(letter, name))) return damage();
        return std::vector<std::byte>(whole.begin(), whole.end());
    }
    const auto salt = in.take(salt_bytes), shown = in.take(proof_bytes), rest = in.take(in.left());
    if (!in.is_whole()) return damage();
    SealKey::Proof proof{};
    std::ranges::copy(shown, proof.begin());
    RONDO_ASSIGN(const SealKey key, (*keys_)->key(use_of_keys, salt, store::text_of(tenant)));
    std::vector<std::byte> opened(rest.begin(), rest.end());
    RONDO_TRY(key.open({}, beside(letter, name, tenant), {opened}, proof));
    return opened;
}

Result<std::vector<std::byte>> Shelf::read(char letter, const StoreName& name, std::string_view value) {
    auto opened = open(letter, name, value);
    if (!opened && opened.error().code == ErrorCode::corrupt) ++damaged_;
    return opened;
}

Result<std::vector<std::byte>> Shelf::get(char letter, const StoreName& name) {
    const auto value = manifest_->get(store::key_of(letter, name));
    if (value) return read(letter, name, *value);
    if (value.error().code != ErrorCode::not_found) return value.error();
    return make_error(ErrorCode::not_found, "there is no such conversation");
}

Status Shelf::put(Manifest::Changes& changes, const StoreName& name, const StoreName& tenant,
                  std::span<const std::byte> head, std::span<const std::byte> body,
                  std::span<const StoreName> records) const {
    RONDO_TRY(within(head.size(), head_bytes_max, "a conversation's head has", "bytes"));
    RONDO_TRY(within(body.size(), body_bytes_max, "a conversation's body has", "bytes"));
    RONDO_TRY(within(records.size(), records_max, "a conversation refers to", "records"));
    const std::array parts = {head, body, std::as_bytes(records)};
    std::array<std::string, letters.size()> values;  // all first: the changes get all or nothing
    for (size_t i = 0; i < letters.size(); ++i) {
        RONDO_ASSIGN(values[i], write(letters[i], name, tenant, parts[i]));
    }
    for (size_t i = 0; i < letters.size(); ++i) changes.put(store::key_of(letters[i], name), values[i]);
    return Status::ok();
}

Status Shelf::put(const StoreName& name, const StoreName& tenant, std::span<const std::byte> head,
                  std::span<const std::byte> body, std::span<const StoreName> records) {
    Manifest::Changes changes;
    RONDO_TRY(put(changes, name, tenant, head, body, records));
    return manifest_->commit(std::move(changes));
}

Status Shelf::put_records(Manifest::Changes& changes, const StoreName& name, const StoreName& tenant,
                          std::span<const StoreName> records) const {
    RONDO_TRY(within(records.size(), records_max, "a conversation refers to", "records"));
    RONDO_ASSIGN(const std::string value, write(store::refers_letter, name, tenant, std::as_bytes(records)));
    changes.put(store::key_of(store::refers_letter, name), value);
    return Status::ok();
}

Status Shelf::remove(std::span<const StoreName> names) {
    Manifest::Changes changes;
    for (const StoreName& name : names)
        for (const char letter : letters) changes.remove(store::key_of(letter, name));
    return manifest_->commit_removal(std::move(changes));
}

Result<std::vector<std::byte>> Shelf::head(const StoreName& name) {
    return get(store::head_letter, name);
}

Result<std::vector<std::byte>> Shelf::body(const StoreName& name) {
    return get(store::body_letter, name);
}

Result<std::vector<StoreName>> Shelf::records(const StoreName& name) {
    RONDO_ASSIGN(const std::vector<std::byte> bytes, get(store::refers_letter, name));
    if (bytes.size() % sizeof(StoreName) != 0) return damage();
    std::vector<StoreName> names(bytes.size() / sizeof(StoreName));
    if (!names.empty()) std::memcpy(names.data(), bytes.data(), bytes.size());
    return names;
}

Status Shelf::each_head(const EachHead& each) {
    return manifest_->each(std::string(1, store::head_letter), [&](std::string_view key, std::string_view value) {
        const StoreName name = store::name_in(key);
        const auto head = read(store::head_letter, name, value);
        if (head) return each(name, *head);
        const bool is_other = head.error().code == ErrorCode::corrupt || head.error().code == ErrorCode::unsupported;
        return is_other ? Status::ok() : head.status();
    });
}

Result<Shelf::Headless> Shelf::headless() {
    Headless found;
    const auto names_of = [&](char letter) -> Result<std::set<StoreName>> {
        std::set<StoreName> names;
        RONDO_TRY(manifest_->each(std::string(1, letter), [&](std::string_view key, std::string_view value) {
            if (!is_key_of_name(key)) return Status::ok();
            names.insert(store::name_in(key));
            if (is_newer(value)) found.newer.insert(store::name_in(key));
            return Status::ok();
        }));
        return names;
    };
    RONDO_ASSIGN(const std::set<StoreName> heads, names_of(store::head_letter));
    RONDO_ASSIGN(std::set<StoreName> others, names_of(store::body_letter));
    RONDO_ASSIGN(const std::set<StoreName> lists, names_of(store::refers_letter));
    others.insert(lists.begin(), lists.end());
    for (const StoreName& name : others) {
        if (heads.contains(name) || found.newer.contains(name)) continue;
        found.names.push_back(name);
        const auto listed = records(name);
        if (listed) found.records.insert(found.records.end(), listed->begin(), listed->end());
    }
    return found;
}

void Shelf::mark_unlisted(Manifest::Changes& changes, const StoreName& record) {
    changes.put(store::key_of(unlisted_letter, record), {});
}

void Shelf::unmark(Manifest::Changes& changes, const StoreName& record) {
    changes.remove(store::key_of(unlisted_letter, record));
}

Result<std::vector<StoreName>> Shelf::unlisted() const {
    std::vector<StoreName> records;
    RONDO_TRY(manifest_->each(std::string(1, unlisted_letter), [&](std::string_view key, std::string_view) {
        if (is_key_of_name(key)) records.push_back(store::name_in(key));
        return Status::ok();
    }));
    return records;
}

bool Shelf::is_newer(std::string_view value) {
    return !value.empty() && static_cast<uint8_t>(value.front()) > sealed;
}

bool Shelf::is_sealed(std::string_view value) {
    return !value.empty() && value.front() == static_cast<char>(sealed);
}

}  // namespace rondo
