#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/aligned_bytes.hpp"
#include "memory/store/byte_io.hpp"
#include "memory/store/kv_store.hpp"

/// What the parts of the store have in common, for its own files.
namespace rondo {

namespace store {

// First letters of the manifest's keys: of records, of tenants' epochs, and of what a conversation has on the shelf.
inline constexpr char record_letter = 'r', epoch_letter = 'e';
inline constexpr char head_letter = 'c', body_letter = 't', refers_letter = 'o';

/// What was written in one day.
inline constexpr const char* day_key = "d";
inline constexpr int64_t seconds_a_day = 24 * 3600;

/// Of what is sealed in a record; layers have numbers of their own.
inline constexpr uint32_t header_number = 0xffff'ffff;

inline std::string key_of(char letter, const StoreName& name) {
    std::string key(1, letter);
    key.append(reinterpret_cast<const char*>(name.data()), name.size());
    return key;
}

/// The name behind a key's letter; zeros where none is.
inline StoreName name_in(std::string_view key) {
    StoreName name{};
    if (key.size() == 1 + name.size()) std::memcpy(name.data(), key.data() + 1, name.size());
    return name;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The proof of a layer that is not sealed: of this record's and no other's.
std::array<std::byte, 16> sum_of(const StoreName& name, size_t layer, const MemoryParts& bytes);
/// What is put beside a sealed layer, so that it is taken for no other.
std::array<std::byte, 20> beside(const StoreName& name, size_t layer);

/// What seals a tenant's records in the segment of that salt.
inline Result<SealKey> key_of_records(const StoreKeys& keys, const Segments::Salt& salt, const StoreName& tenant) {
    return keys.key("kv", salt, text_of(tenant));
}
/// Reads a record's header, opened in place where there is a key. It must say what the manifest says.
Result<RecordHeader> open_header(const StoredRecord& known, const SealKey* key, std::span<std::byte> bytes);
/// Proves the bytes of a layer, opened in place where there is a key.
Status open_layer(const StoredRecord& record, const RecordHeader& header, size_t layer, const SealKey* key,
                  const MemoryParts& bytes);

}  // namespace store

class KvStore::Writing {
public:
    StoredRecord record;
    RecordHeader header;
    std::optional<SealKey> key;
    AlignedBytes bytes;   // of the header
    bool found = false;   // or may be: its space is not given back at the end of this
    bool failed = false;  // a layer could not be written
};

class KvStore::Reading {
public:
    const SealKey* sealed_by() const { return key ? &*key : nullptr; }

    StoredRecord record;
    RecordHeader header;
    std::optional<SealKey> key;
    AlignedBytes bytes;  // of the header
};

/// On the store's thread, if there still is a store then.
template <class T>
std::function<void(T)> KvStore::posted(std::function<void(T)> done) const {
    return [post = options_.post, alive = alive_, done = std::move(done)](T result) {
        post([alive, done, result = std::move(result)]() mutable {
            if (*alive) done(std::move(result));
        });
    };
}

}  // namespace rondo
