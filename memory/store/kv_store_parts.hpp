#pragma once

#include <optional>

#include "memory/store/aligned_bytes.hpp"
#include "memory/store/kv_store.hpp"

/// What the parts of the store have in common, for its own files.
namespace rondo {

class KvStore::Writing {
public:
    const SealKey* sealed_by() const { return key ? &*key : nullptr; }

    StoredRecord record;
    RecordHeader header;
    std::optional<SealKey> key = {};
    AlignedBytes bytes = {};   // of the header
    bool keeps_space = false;  // it is found, or the manifest may name it: its space does not come back with this
    bool failed = false;       // a layer could not be written
};

class KvStore::Reading {
public:
    const SealKey* sealed_by() const { return key ? &*key : nullptr; }

    StoredRecord record;
    RecordHeader header;
    std::optional<SealKey> key;
    AlignedBytes bytes;  // of the header
};

}  // namespace rondo
