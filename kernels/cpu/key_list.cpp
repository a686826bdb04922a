#include "kernels/cpu/key_list.hpp"

#include <algorithm>

namespace rondo::cpu {

int64_t block_of_key(const int32_t* block_begin, int64_t block_count, int64_t key) {
    return std::upper_bound(block_begin, block_begin + block_count, static_cast<int32_t>(key)) - block_begin - 1;
}

TileKeys block_keys(const KvLayer& kv, const SequenceTables& tables, int sequence, int head, int64_t block) {
    const int64_t at = sequence * tables.blocks_stride + block;
    const int32_t first = tables.block_begin[at];
    const int32_t filled = tables.block_begin[at + 1] - first;
    return {kv.at(tables.blocks[at], head), first, static_cast<uint16_t>((1U << filled) - 1),
            static_cast<uint16_t>(filled)};
}

KeyList::KeyList(const KvLayer& kv, const SequenceTables& tables, int sequence, int head, int64_t visible,
                 const AttendedKeys* selected, const std::byte* atoms)
    : kv_(kv), tables_(tables), sequence_(sequence), head_(head), atoms_(atoms) {
    const int32_t* const begin = tables.block_begin + sequence * tables.blocks_stride;
    const int64_t blocks = tables.block_count[sequence];
    blocks_end_ = std::lower_bound(begin, begin + blocks, static_cast<int32_t>(visible)) - begin;
    if (selected == nullptr || selected->counts == nullptr) return;
    entries_ = selected->entries + static_cast<int64_t>(head) * selected->stride;
    entry_count_ = selected->counts[head];
    tail_begin_ = selected->tail_begin;
    blocks_begin_ = std::min(block_of_key(begin, blocks, tail_begin_), blocks_end_);
}

void KeyList::write(int64_t first, int64_t count, TileKeys* out) const {
    for (int64_t i = first; i < first + count; ++i, ++out) {
        if (i < entry_count_) {
            const KvEntry& entry = entries_[i];
            const size_t offset = static_cast<size_t>(entry.atom) * kv_.atom.bytes();
            *out = {atoms_ + offset, everyone_sees, entry.allowed, entry.filled};
            continue;
        }
        *out = block_keys(kv_, tables_, sequence_, head_, blocks_begin_ + i - entry_count_);
        if (out->first < tail_begin_) out->allowed &= static_cast<uint16_t>(0xffffU << (tail_begin_ - out->first));
    }
}

}  // namespace rondo::cpu
