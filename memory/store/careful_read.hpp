#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "config/result.hpp"
#include "memory/store/memory_parts.hpp"
#include "memory/store/segments.hpp"
#include "memory/store/store_thread.hpp"

namespace rondo {

/// Reads a record's bytes from `at` on, in pieces, so that a disk has enough to do. A piece that the disk cannot read
/// is asked for once more; a second error is its answer. The record is damaged then (corrupt) if the disk reads other
/// bytes of the same file. A disk that reads nothing may come back, and its error is told as it is.
///
/// Called on the store's thread. `come` is told once, by the last piece, of the first error: on the disk's thread where
/// that has read something, and at once where no bytes are asked for. Nothing is told once the thread's owner has gone.
/// The segments outlive what is asked of them.
void read_carefully(Segments& segments, const StoreThread& thread, const RecordPlace& place, uint64_t at,
                    const MemoryParts& into, std::function<void(Status)> come);

inline constexpr size_t read_piece_bytes = size_t{1} << 20;

}  // namespace rondo
