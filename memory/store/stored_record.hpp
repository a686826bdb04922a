#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "memory/store/record_index.hpp"
#include "memory/store/store_keys.hpp"

namespace rondo {

/// What the manifest says of a record.
struct ManifestEntry {
    static constexpr uint32_t version_now = 1;

    StoredRecord record;
    uint64_t kind = 0;  ///< a checksum of its kind of KV
    uint32_t version = version_now;
};

/// Another one for each version of what is written, so that no two versions give records the same names.
uint64_t checksum_of_kind(const KvKind& kind);
/// Of this version.
std::vector<std::byte> write_stored_record(const ManifestEntry& entry);
/// corrupt where they are not bytes that were written so. Of another version's the names, the place and when it was
/// used are known: in every version these come first, as they do in this one, and a checksum of all comes last. In
/// every version a record has tokens, none of its counts is negative, and it does not stand behind itself.
Result<ManifestEntry> read_stored_record(std::span<const std::byte> bytes);

/// A name for bytes that are used so. With keys nothing of them can be seen from it.
StoreName store_name(const std::optional<StoreKeys>& keys, std::string_view use, std::span<const std::byte> bytes);

}  // namespace rondo
