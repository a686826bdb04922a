#pragma once

#include <cstdint>

#include "kernels/cpu/attend_tile.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// The block of a sequence that holds a key.
int64_t block_of_key(const int32_t* block_begin, int64_t block_count, int64_t key);

/// One of a sequence's blocks as the keys of one KV head.
TileKeys block_keys(const KvLayer& kv, const SequenceTables& tables, int sequence, int head, int64_t block);

/// The keys of one KV head that rows of a sequence attend to, atom by atom: chosen entries first, then the sequence's
/// own blocks.
class KeyList {
public:
    /// For a row that sees the first `visible` keys. Without `selected` (null) it attends to all of them.
    KeyList(const KvLayer& kv, const SequenceTables& tables, int sequence, int head, int64_t visible,
            const AttendedKeys* selected, const std::byte* atoms);

    int64_t count() const { return entry_count_ + blocks_end_ - blocks_begin_; }
    /// Atoms [first, first + count).
    void write(int64_t first, int64_t count, TileKeys* out) const;

private:
    const KvLayer& kv_;
    const SequenceTables& tables_;
    int sequence_;
    int head_;
    const std::byte* atoms_;
    const KvEntry* entries_ = nullptr;
    int64_t entry_count_ = 0;
    int64_t tail_begin_ = 0;
    int64_t blocks_begin_ = 0, blocks_end_ = 0;
};

}  // namespace rondo::cpu
