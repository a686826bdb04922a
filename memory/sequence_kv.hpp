#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "memory/kv_pool.hpp"

namespace rondo {

/// The KV of one sequence: for each layer group, which block holds which keys. The tokens of a sequence are numbered in
/// order of arrival, and their keys in each group are too. A round starts on a fresh block, so blocks may be partly
/// filled. Owns its leases; not shared between threads. A group without layers has no keys, blocks or slots.
///
/// A group holds all of a round or none of it. As long as nobody says otherwise both groups hold every round, and a
/// key has its token's number. Behind a round that a group does not hold, its keys have smaller numbers than their
/// tokens: what attends to the group sees the keys that it holds, one after another.
class SequenceKv {
public:
    explicit SequenceKv(KvPool& pool);

    int64_t tokens() const { return tokens_; }
    /// Keys of a group, numbered from 0.
    int64_t tokens(LayerGroup group) const { return groups_[group].tokens(); }
    /// Rounds that have tokens.
    int64_t rounds() const { return static_cast<int64_t>(round_begin_.size()); }
    /// First token of round r, and its first key in a group.
    int64_t round_begin(int64_t r) const { return round_begin_[static_cast<size_t>(r)]; }
    int64_t round_begin(LayerGroup group, int64_t r) const {
        return groups_[group].round_begin[static_cast<size_t>(r)];
    }
    bool holds(LayerGroup group, int64_t round) const { return round_end(group, round) > round_begin(group, round); }
    /// Every key of every token is there, in each group that has layers.
    bool is_whole() const;

    /// The next tokens open a new round (a fresh block). Nothing happens if the current round is empty.
    void begin_round();
    /// Where rounds will end that are known ahead, ascending: what comes behind such a token opens a round.
    void plan_rounds(std::vector<int64_t> ends);
    const std::vector<int64_t>& planned_ends() const { return ends_; }
    /// Begins an empty sequence with blocks that are shared and never written again; block i holds `sizes[i]` keys.
    /// Rounds end where they are planned to, and behind each block that is not full. The next tokens go into a fresh
    /// block.
    void attach(PerGroup<KvLease> blocks, std::span<const int32_t> sizes);
    /// A lease of the sequence's block i in a group.
    KvLease share_block(LayerGroup group, size_t block) const { return share_blocks(group, block, 1); }
    KvLease share_blocks(LayerGroup group, size_t first, size_t count) const {
        return groups_[group].lease.share(first, count);
    }
    /// Tokens from the beginning on whose keys are exact: all of them, unless somebody says otherwise.
    int64_t exact_tokens() const { return std::min(tokens_, inexact_from_); }
    /// Keys from this token on are not exact, and what is computed behind them neither.
    void go_on_inexactly(int64_t token) { inexact_from_ = std::min(inexact_from_, token); }
    void go_on_inexactly() { go_on_inexactly(tokens_); }
    /// Of those behind all exact ones, which came from elsewhere, these are exact as well.
    void take_as_exact(int64_t tokens) { inexact_from_ = std::max(inexact_from_, tokens); }
    /// It replaces another sequence: where its own keys are all exact, what is computed behind them is as exact as it
    /// would be there.
    void go_on_as(const SequenceKv& other) {
        if (exact_tokens() == tokens_) inexact_from_ = std::max(other.inexact_from_, tokens_);
    }

    /// The same keys, as they are, under leases of its own: for reading, whatever becomes of this sequence.
    SequenceKv share() const;
    /// Another sequence that begins as this one, with its blocks of the first tokens, shared; they end a block. Its
    /// rounds end as `attach` says.
    SequenceKv beginning(int64_t tokens, std::vector<int64_t> round_ends) const;
    /// Takes over the blocks that another sequence has set aside.
    void take_set_aside(SequenceKv& other);
    /// Blocks that `count` more tokens would take.
    BlockCounts blocks_for(int64_t count) const;
    /// Takes blocks ahead of need, so that extending by `count` tokens cannot fail; or takes nothing and says
    /// out_of_memory.
    Status set_aside(int64_t count);
    /// Gives those back that so many more tokens would not take.
    void keep_set_aside(int64_t count);
    /// Blocks that are held and have no keys yet.
    int64_t blocks_set_aside(LayerGroup group) const { return std::ssize(groups_[group].spare.blocks()); }
    /// Makes room for `count` more tokens in both groups, or takes nothing and says out_of_memory.
    Status extend(int64_t count);
    /// Drops the keys from token `tokens` ≤ tokens() on (a rejected step, a rewind). Blocks that become empty go back
    /// to the pool. After a cut inside a round, the next tokens go on with that round. After a cut at a round's first
    /// token, they open that round again. After a cut inside what was attached, or inside a round that a group does
    /// not hold, they open a new round.
    void truncate(int64_t tokens) { cut(tokens, false); }
    /// The same, but the blocks are set aside: extending to where it was cannot fail.
    void set_back(int64_t tokens) { cut(tokens, true); }
    /// The same for keys that will be computed again as they were: what is exact of them is exact again.
    void begin_again(int64_t tokens) {
        const int64_t inexact_from = inexact_from_;
        cut(tokens, true);
        inexact_from_ = inexact_from;
    }
    /// Gives up the blocks whose keys all come before `token`, for good; but never the last one, where more may
    /// follow. Keys keep their numbers. A group's `blocks` and `block_begin` begin with the first block that is still
    /// held, and the sequence can no longer be cut before that.
    void release_before(int64_t token);
    /// The first token from which on nothing was given up by `release_before`.
    int64_t first_held() const;

    /// Adds a round of which no group holds keys: they lie elsewhere. The next tokens open a new round.
    Status append_round(int64_t tokens);
    /// Gives a group's blocks of a round back to the pool. The next tokens open a new round if it was the last.
    void release_round(LayerGroup group, int64_t round);
    /// Takes blocks for a round that the group does not hold and whose beginning was not given up; or takes nothing
    /// and says out_of_memory. Where the other group holds the round, the blocks have that group's borders. Whoever
    /// asks writes the keys.
    Status take_round(LayerGroup group, int64_t round);
    /// The group does without these rounds, ascending, for a while: their blocks stay the sequence's, and nothing sees
    /// their keys. What was hidden before is seen again. The last round cannot be hidden, because it may go on.
    void hide_rounds(LayerGroup group, std::span<const int64_t> rounds);
    /// All that was hidden is seen again.
    void show_rounds();

    /// Makes room in the tables for a sequence of this many tokens: within it, `extend` allocates nothing. That holds
    /// in later rounds too, because `begin_round` tops the tables up.
    void reserve(int64_t tokens);

    /// Block ids of a group, and block_begin with one more entry (the last is tokens(group)).
    std::span<const int32_t> blocks(LayerGroup group) const { return groups_[group].lease.blocks(); }
    std::span<const int32_t> block_begin(LayerGroup group) const { return groups_[group].block_begin; }
    /// The key of a token in a group, or of the first one behind it that the group holds; of tokens(): tokens(group).
    int64_t key_of(LayerGroup group, int64_t token) const;
    /// slot (block·16 + offset) of a token in a group that holds its round.
    int32_t slot(LayerGroup group, int64_t token) const;

private:
    struct Hidden {
        std::vector<int64_t> rounds;
        std::vector<int32_t> begins;  // of their blocks, counted in each round
        KvLease lease;                // of their blocks, one round's behind the other's
    };
    struct Group {
        int64_t tokens() const { return block_begin.back(); }
        size_t blocks() const { return block_begin.size() - 1; }

        KvLease lease;
        KvLease spare;                        // set aside
        std::vector<int32_t> block_begin{0};  // by key, with one more entry
        std::vector<int32_t> round_begin;     // by key
        Hidden hidden;
    };
    /// Where a group's blocks of a round begin and end, counted among its blocks.
    KvLease::Range blocks_of_round(LayerGroup group, int64_t round) const;
    std::vector<int32_t> borders_of_round(LayerGroup group, int64_t round) const;
    void show_rounds(Group& own);
    /// This round or a later one is hidden.
    bool hides_from(int64_t round) const;
    int64_t round_tokens(size_t round) const;
    /// Of `count` more tokens those before the next planned end of a round, and whether that comes then.
    int64_t before_end(int64_t first, int64_t count) const;
    void grow(int64_t count);
    void cut(int64_t tokens, bool keeps_blocks);
    bool ends_at(int64_t token) const { return std::ranges::binary_search(ends_, token); }
    int64_t round_end(LayerGroup group, int64_t round) const;
    int64_t room() const;
    bool goes_on_inexactly() const { return inexact_from_ != std::numeric_limits<int64_t>::max(); }
    void top_up() { reserve(tokens_reserved_); }

    KvPool* pool_;
    int64_t tokens_ = 0;
    int64_t attached_ = 0;  // of them
    int64_t tokens_reserved_ = 0;
    int64_t inexact_from_ = std::numeric_limits<int64_t>::max();  // this token on
    bool fresh_block_ = true;                                     // the next token opens a round
    std::vector<int64_t> ends_;                                   // planned, of rounds
    std::vector<int64_t> round_begin_;
    PerGroup<Group> groups_;
};

}  // namespace rondo
