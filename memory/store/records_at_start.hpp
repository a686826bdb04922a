#pragma once

#include <cstdint>

#include "config/result.hpp"
#include "memory/store/manifest.hpp"
#include "memory/store/segments.hpp"
#include "memory/store/stored_records.hpp"

namespace rondo {

/// What a store's folder has when a process opens it.
struct RecordsAtStart {
    StoredRecords records;
    int64_t damaged = 0;  ///< entries of the manifest that cannot be true; they are removed
    int64_t foreign = 0;  ///< of other kinds of KV and of other versions: they stay, and are the first to go
};

/// Takes over what the manifest names and the segments have room for. All else of the manifest's records is removed,
/// and then all else of the segments is given back. `kind` is a checksum of this process's kind of KV.
Result<RecordsAtStart> records_at_start(Manifest& manifest, Segments& segments, uint64_t kind, bool has_keys);

}  // namespace rondo
