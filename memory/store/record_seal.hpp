#pragma once

#include <cstddef>
#include <span>

#include "config/result.hpp"
#include "memory/store/aligned_bytes.hpp"
#include "memory/store/record_header.hpp"
#include "memory/store/record_index.hpp"
#include "memory/store/segments.hpp"
#include "memory/store/store_keys.hpp"

/// What makes sure that a record's bytes are those that were written: checksums, or with a key AES-256-GCM. Each proof
/// is of one record at one place and of one part of it, so the bytes of another place do not pass.
namespace rondo::store {

/// What seals a tenant's records in the segment of that salt.
Result<SealKey> key_of_records(const StoreKeys& keys, const Segments::Salt& salt, const StoreName& tenant);

/// The proof of a layer, sealed in place where there is a key.
Result<SealKey::Proof> seal_layer(const StoredRecord& record, size_t layer, const SealKey* key,
                                  std::span<std::byte> bytes);
/// Proves the bytes of a layer, opened in place where there is a key.
Status open_layer(const StoredRecord& record, const RecordHeader& header, size_t layer, const SealKey* key,
                  const MemoryParts& bytes);

/// The bytes of a record's header, sealed where there is a key.
Result<AlignedBytes> seal_header(const StoredRecord& record, const RecordHeader& header, const SealKey* key);
/// Reads a record's header, opened in place where there is a key. It must say what the manifest says.
Result<RecordHeader> open_header(const StoredRecord& known, const SealKey* key, std::span<std::byte> bytes);

/// Of a record whose bytes do not pass.
Error not_what_was_written();

}  // namespace rondo::store
