#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/kv_pool.hpp"
#include "memory/store/memory_parts.hpp"

namespace rondo {

/// A layer of a round as it is stored: its blocks one behind the other, each with the atoms of all KV heads.
size_t bytes_of_layer(const KvPool& pool, size_t blocks);

/// Puts the copies of a layer's blocks on the device's store stream: from the pool to `to`, which is host memory of
/// `bytes_of_layer`. Slots that hold no key of the round go along; `clear_unwritten` takes them out once the copies are
/// complete.
Status copy_out(Device& device, const KvPool& pool, int layer, std::span<const int32_t> blocks,
                std::span<std::byte> to);
/// Zeros what stands in the slots behind the last key: nobody wrote it for this round, and it may be another's.
void clear_unwritten(const KvAtom& atom, int heads, int64_t tokens, std::span<std::byte> layer);
/// A layer's blocks where they lie, those that follow one another in one part; empty where a disk cannot read into
/// them, or had rather not: in a GPU's memory, or where parts are small, or no multiples of what it reads.
MemoryParts parts_of_layer(const Device& device, const KvPool& pool, int layer, std::span<const int32_t> blocks);
/// Puts the copies on the device's load stream: from `from`, which is host memory, to the pool's blocks.
Status copy_in(Device& device, const KvPool& pool, int layer, std::span<const int32_t> blocks, const MemoryParts& from);

}  // namespace rondo
