#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "memory/kv_pool.hpp"

namespace rondo {

/// The KV of one sequence: for each layer group, which block holds which keys. Keys are numbered in order of arrival; a
/// round starts on a fresh block, so blocks may be partly filled. Owns its leases; not shared between threads. A group
/// without layers has no blocks: its `blocks` is empty and it has no slots.
class SequenceKv {
public:
    explicit SequenceKv(KvPool& pool);

    int64_t tokens() const { return tokens_; }
    /// Rounds that have keys.
    int64_t rounds() const { return static_cast<int64_t>(round_begin_.size()); }
    /// First key of round r.
    int64_t round_begin(int64_t r) const { return round_begin_[static_cast<size_t>(r)]; }
    /// The next tokens open a new round (a fresh block). Nothing happens if the current round is empty.
    void begin_round();
    /// Begins an empty sequence with blocks that are shared and never written again; block i holds `sizes[i]` keys. The
    /// next tokens open a new round.
    void attach(KvLease lower, KvLease upper, std::span<const int32_t> sizes);
    /// A lease of the sequence's block i in a group.
    KvLease share_block(LayerGroup group, size_t block) const {
        return leases_[static_cast<int>(group)].share(block, 1);
    }
    /// The same keys, as they are, under leases of its own: for reading, whatever becomes of this sequence.
    SequenceKv share() const;
    /// Blocks that `count` more tokens would take in each group.
    int64_t blocks_for(int64_t count) const;
    /// Takes blocks ahead of need, so that extending by `count` tokens cannot fail; or takes nothing and says
    /// out_of_memory.
    Status set_aside(int64_t count);
    /// Blocks of each group that are held and have no keys yet.
    int64_t blocks_set_aside() const {
        return static_cast<int64_t>(spare_[static_cast<int>(LayerGroup::upper)].blocks().size());
    }
    /// Makes room for `count` more tokens in both groups, or takes nothing and says out_of_memory.
    Status extend(int64_t count);
    /// Drops the keys from `tokens` ≤ tokens() on (a rejected step, a rewind); blocks that become empty go back to the
    /// pool. Cut inside a round, that round goes on; cut at a round's first key, the next tokens open that round again;
    /// cut inside what was attached, they open a new one.
    void truncate(int64_t tokens);
    /// Gives up the blocks whose keys all come before `token`, for good (but never the last one, where
    /// more may follow): keys keep their numbers, and `blocks` and `block_begin` begin with the first block that is
    /// still held. The sequence can no longer be cut before that.
    void release_before(int64_t token);
    /// The first key that is still held.
    int64_t first_held() const { return block_begin_.front(); }
    /// Makes room in the tables for a sequence of this many tokens, so that `extend` within it allocates nothing, in
    /// this round or (because `begin_round` tops the tables up) in a later one.
    void reserve(int64_t tokens);

    /// block ids of a group, and block_begin with one more entry (the last is tokens()).
    std::span<const int32_t> blocks(LayerGroup group) const { return leases_[static_cast<int>(group)].blocks(); }
    std::span<const int32_t> block_begin() const { return block_begin_; }
    /// slot (block·16 + offset) of key `token` in a group.
    int32_t slot(LayerGroup group, int64_t token) const;

private:
    KvPool* pool_;
    int64_t tokens_ = 0;
    int64_t attached_ = 0;  // of them
    int64_t tokens_reserved_ = 0;
    bool fresh_block_ = true;  // the next token opens a round
    std::vector<int64_t> round_begin_;
    std::vector<int32_t> block_begin_{0};  // same in both groups
    KvLease leases_[layer_groups];
    KvLease spare_[layer_groups];  // set aside, the same number in both groups that have layers
};

}  // namespace rondo
