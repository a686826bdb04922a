#include "memory/sequence_kv.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "config/checked.hpp"
#include "config/limits.hpp"
#include "memory/sequence_borders.hpp"

namespace rondo {

namespace {

/// `reserve` by the exact count would make growth by single blocks quadratic.
template <class T>
void make_room(std::vector<T>& table, size_t count) {
    if (count > table.capacity()) table.reserve(std::max(count, 2 * table.capacity()));
}

}  // namespace

SequenceKv::SequenceKv(KvPool& pool) : pool_(&pool) {
    // No blocks yet, so this cannot fail: it only binds the leases to the pool.
    for (const LayerGroup group : layer_groups) {
        groups_[group].lease = pool.acquire(group, 0).value();
        groups_[group].spare = pool.acquire(group, 0).value();
    }
}

int64_t SequenceKv::round_tokens(size_t round) const {
    return (round + 1 < round_begin_.size() ? round_begin_[round + 1] : tokens_) - round_begin_[round];
}

int64_t SequenceKv::round_end(LayerGroup group, int64_t round) const {
    return round + 1 < rounds() ? round_begin(group, round + 1) : tokens(group);
}

/// Tokens that the last block takes. The groups agree: a round that goes on is held by both, with the same borders, and
/// its blocks are full but for the last one.
int64_t SequenceKv::room() const {
    if (fresh_block_) return 0;
    const int64_t beyond = round_tokens(round_begin_.size() - 1) % kv_block_tokens;
    return beyond == 0 ? 0 : kv_block_tokens - beyond;
}

int64_t SequenceKv::key_of(LayerGroup group, int64_t token) const {
    if (tokens(group) == tokens_ || round_begin_.empty()) return token;
    const auto round = std::ranges::upper_bound(round_begin_, token) - round_begin_.begin() - 1;
    const int64_t in_round = token - round_begin(round);
    return std::min(round_begin(group, round) + in_round, round_end(group, round));
}

bool SequenceKv::is_whole() const {
    return std::ranges::all_of(layer_groups, [&](LayerGroup group) {
        return !pool_->shape().has(group) || (tokens(group) == tokens_ && groups_[group].block_begin.front() == 0);
    });
}

int64_t SequenceKv::first_held() const {
    int64_t first = 0;
    for (const LayerGroup group : layer_groups) {
        const Group& own = groups_[group];
        const int32_t key = own.block_begin.front();
        if (key == 0) continue;
        size_t round = index_of(own.round_begin, key);
        if (round == own.round_begin.size() || own.round_begin[round] > key) --round;
        first = std::max(first, round_begin_[round] + key - own.round_begin[round]);
    }
    return first;
}

void SequenceKv::begin_round() {
    if (fresh_block_) return;
    fresh_block_ = true;
    top_up();
}

void SequenceKv::plan_rounds(std::vector<int64_t> ends) {
    assert(std::ranges::is_sorted(ends));
    ends_ = std::move(ends);
    if (ends_at(tokens_)) begin_round();
}

int64_t SequenceKv::before_end(int64_t first, int64_t count) const {
    const auto end = std::ranges::upper_bound(ends_, first);
    return end == ends_.end() ? count : std::min(count, *end - first);
}

void SequenceKv::attach(PerGroup<KvLease> blocks, std::span<const int32_t> sizes) {
    assert(tokens_ == 0 && round_begin_.empty());
    for (const int32_t size : sizes) {
        if (fresh_block_) round_begin_.push_back(tokens_);
        tokens_ += size;
        fresh_block_ = size < kv_block_tokens || ends_at(tokens_);
    }
    for (const LayerGroup group : layer_groups) {
        Group& own = groups_[group];
        const bool has = pool_->shape().has(group);
        for (const int64_t begin : round_begin_) own.round_begin.push_back(has ? static_cast<int32_t>(begin) : 0);
        if (!has) continue;
        assert(blocks[group].blocks().size() == sizes.size());
        own.lease.append(std::move(blocks[group]));
        for (const int32_t size : sizes) own.block_begin.push_back(own.block_begin.back() + size);
    }
    attached_ = tokens_;
}

SequenceKv SequenceKv::share() const {
    SequenceKv made(*pool_);
    for (const LayerGroup group : layer_groups) {
        made.groups_[group].lease = groups_[group].lease.share();
        made.groups_[group].block_begin = groups_[group].block_begin;
        made.groups_[group].round_begin = groups_[group].round_begin;
        const Hidden& hidden = groups_[group].hidden;
        made.groups_[group].hidden = {hidden.rounds, hidden.begins, hidden.lease.share()};
    }
    made.tokens_ = made.attached_ = tokens_;  // what comes behind them would open a round
    made.inexact_from_ = inexact_from_;
    made.round_begin_ = round_begin_;
    return made;
}

SequenceKv SequenceKv::beginning(int64_t tokens, std::vector<int64_t> round_ends) const {
    SequenceKv made(*pool_);
    made.plan_rounds(std::move(round_ends));
    PerGroup<KvLease> leases;
    std::vector<int32_t> sizes;
    for (const LayerGroup group : layer_groups) {
        if (!pool_->shape().has(group)) continue;
        const Group& own = groups_[group];
        const size_t blocks = index_of(own.block_begin, tokens);
        assert(own.block_begin[blocks] == tokens && first_held() == 0);
        leases[group] = own.lease.share(0, blocks);
        sizes.clear();
        for (size_t i = 0; i < blocks; ++i) sizes.push_back(own.block_begin[i + 1] - own.block_begin[i]);
    }
    made.attach(std::move(leases), sizes);
    made.inexact_from_ = inexact_from_;
    if (goes_on_inexactly()) made.go_on_inexactly();
    return made;
}

void SequenceKv::take_set_aside(SequenceKv& other) {
    for (const LayerGroup group : layer_groups) groups_[group].spare.append(std::move(other.groups_[group].spare));
}

BlockCounts SequenceKv::blocks_for(int64_t count) const {
    int64_t blocks = 0, room_left = room();
    for (int64_t first = tokens_; count > 0;) {
        const int64_t part = before_end(first, count);
        blocks += ceil_div<int64_t>(part - std::min(part, room_left), kv_block_tokens);
        room_left = 0;
        first += part;
        count -= part;
    }
    return pool_->shape().blocks_of_each(blocks);
}

Status SequenceKv::set_aside(int64_t count) {
    const BlockCounts wanted = blocks_for(count);
    PerGroup<size_t> before;
    for (const LayerGroup group : layer_groups) before[group] = groups_[group].spare.blocks().size();
    for (const LayerGroup group : layer_groups) {
        const auto blocks = static_cast<size_t>(wanted[group]);
        if (before[group] >= blocks) continue;
        if (Status taken = pool_->extend(groups_[group].spare, blocks - before[group]); !taken) {
            for (const LayerGroup done : layer_groups) groups_[done].spare.truncate(before[done]);
            return taken;
        }
    }
    return {};
}

void SequenceKv::keep_set_aside(int64_t count) {
    const BlockCounts wanted = blocks_for(count);
    for (const LayerGroup group : layer_groups) {
        KvLease& spare = groups_[group].spare;
        spare.truncate(std::min(spare.blocks().size(), static_cast<size_t>(wanted[group])));
    }
}

Status SequenceKv::extend(int64_t count) {
    RONDO_TRY(check_count("asked for", count, 0, limits::context_tokens_max - tokens_));
    if (count == 0) return {};
    const BlockCounts added = blocks_for(count);
    const auto planned = std::ranges::lower_bound(ends_, tokens_ + count) - std::ranges::upper_bound(ends_, tokens_);
    const size_t rounds = static_cast<size_t>(std::max<std::ptrdiff_t>(planned, 0)) + (fresh_block_ ? 1 : 0);
    for (const LayerGroup group : layer_groups) {
        Group& own = groups_[group];
        make_room(own.block_begin, own.block_begin.size() + static_cast<size_t>(added[group]));
        make_room(own.round_begin, own.round_begin.size() + rounds);
    }
    make_room(round_begin_, round_begin_.size() + rounds);

    RONDO_TRY(set_aside(count));
    while (count > 0) {
        const int64_t part = before_end(tokens_, count);
        grow(part);
        count -= part;
        if (ends_at(tokens_)) begin_round();
    }
    return {};
}

/// By tokens of one round, for which blocks are set aside and the tables have room.
void SequenceKv::grow(int64_t count) {
    const int64_t beyond = count - std::min(count, room());
    const int64_t added = ceil_div<int64_t>(beyond, kv_block_tokens);
    if (fresh_block_) {
        round_begin_.push_back(tokens_);
        for (Group& own : groups_.values) own.round_begin.push_back(own.block_begin.back());
    }
    fresh_block_ = false;
    tokens_ += count;
    for (const LayerGroup group : layer_groups) {
        if (!pool_->shape().has(group)) continue;
        Group& own = groups_[group];
        own.lease.take_last(own.spare, static_cast<size_t>(added));
        const int64_t end = own.tokens() + count;
        own.block_begin.pop_back();
        for (int64_t i = 0; i < added; ++i)
            own.block_begin.push_back(static_cast<int32_t>(end - beyond + i * kv_block_tokens));
        own.block_begin.push_back(static_cast<int32_t>(end));
    }
}

void SequenceKv::cut(int64_t tokens, bool keeps_blocks) {
    assert(tokens >= first_held() && tokens <= tokens_);
    if (tokens == tokens_) return;
    const auto rounds_left = static_cast<size_t>(std::ranges::lower_bound(round_begin_, tokens) - round_begin_.begin());
    if (hides_from(static_cast<int64_t>(rounds_left) - 1)) show_rounds();
    // Cut at a round's first token, that round opens again.
    fresh_block_ = rounds_left < round_begin_.size() && round_begin_[rounds_left] == tokens;
    for (const LayerGroup group : layer_groups) {
        if (!pool_->shape().has(group)) continue;
        Group& own = groups_[group];
        const int64_t key = key_of(group, tokens);
        fresh_block_ = fresh_block_ || !holds(group, static_cast<int64_t>(rounds_left) - 1);
        // Blocks that begin before the cut stay.
        const size_t blocks = index_of(own.block_begin, key);
        own.block_begin.resize(blocks + 1);
        own.block_begin[blocks] = static_cast<int32_t>(key);
        if (keeps_blocks) own.spare.take_last(own.lease, own.lease.blocks().size() - blocks);
        own.lease.truncate(blocks);
    }
    for (Group& own : groups_.values) own.round_begin.resize(rounds_left);
    round_begin_.resize(rounds_left);
    tokens_ = tokens;
    if (goes_on_inexactly()) go_on_inexactly();
    if (tokens < attached_) {  // its last block may be shared and must not be written
        attached_ = tokens;
        fresh_block_ = true;
    }
    if (fresh_block_) top_up();  // what is free in the last block is no longer of use
}

void SequenceKv::release_before(int64_t token) {
    assert(token <= tokens_);
    for (const LayerGroup group : layer_groups) {
        Group& own = groups_[group];
        const int64_t key = key_of(group, token);
        size_t gone = 0;
        while (gone + 1 < own.blocks() && own.block_begin[gone + 1] <= key) ++gone;
        own.lease.drop(0, gone);
        own.block_begin.erase(own.block_begin.begin(), own.block_begin.begin() + static_cast<std::ptrdiff_t>(gone));
    }
}

void SequenceKv::reserve(int64_t tokens) {
    tokens_reserved_ = std::clamp<int64_t>(tokens, tokens_reserved_, limits::context_tokens_max);
    const int64_t more = std::max<int64_t>(0, tokens_reserved_ - tokens_);
    const auto blocks_more = static_cast<size_t>(ceil_div<int64_t>(more, kv_block_tokens));
    make_room(round_begin_, round_begin_.size() + 1);
    for (const LayerGroup group : layer_groups) {
        Group& own = groups_[group];
        make_room(own.round_begin, own.round_begin.size() + 1);
        if (!pool_->shape().has(group)) continue;
        make_room(own.block_begin, own.blocks() + blocks_more + 1);
        own.lease.reserve(own.blocks() + blocks_more);
        own.spare.reserve(own.blocks() + blocks_more);
    }
}

int32_t SequenceKv::slot(LayerGroup group, int64_t token) const {
    assert(token >= 0 && token < tokens_);
    const std::vector<int32_t>& begins = groups_[group].block_begin;
    const int64_t key = key_of(group, token);
    const auto block = static_cast<size_t>(std::ranges::upper_bound(begins, key) - begins.begin()) - 1;
    assert(key < key_of(group, token + 1) && "the group must hold the token's round");
    return blocks(group)[block] * kv_block_tokens + static_cast<int32_t>(key - begins[block]);
}

}  // namespace rondo
