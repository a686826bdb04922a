// Rounds of which a layer group holds nothing, or does not see what it holds.

#include <algorithm>
#include <cassert>

#include "config/checked.hpp"
#include "config/limits.hpp"
#include "memory/sequence_borders.hpp"
#include "memory/sequence_kv.hpp"

namespace rondo {

Status SequenceKv::append_round(int64_t tokens) {
    RONDO_TRY(check_count("in a round to append", tokens, 1, limits::context_tokens_max - tokens_));
    round_begin_.push_back(tokens_);
    for (Group& own : groups_.values) own.round_begin.push_back(own.block_begin.back());
    tokens_ += tokens;
    fresh_block_ = true;
    top_up();
    return {};
}

KvLease::Range SequenceKv::blocks_of_round(LayerGroup group, int64_t round) const {
    const std::vector<int32_t>& begins = groups_[group].block_begin;
    return {index_of(begins, round_begin(group, round)), index_of(begins, round_end(group, round))};
}

void SequenceKv::release_round(LayerGroup group, int64_t round) {
    Group& own = groups_[group];
    if (std::ranges::binary_search(own.hidden.rounds, round)) show_rounds(own);
    if (!holds(group, round)) return;
    const int64_t count = round_end(group, round) - round_begin(group, round);
    const auto [first, last] = blocks_of_round(group, round);
    own.lease.drop(first, last - first);
    own.block_begin.erase(own.block_begin.begin() + static_cast<std::ptrdiff_t>(first),
                          own.block_begin.begin() + static_cast<std::ptrdiff_t>(last));
    shift_from(own.block_begin, first, -count);
    shift_from(own.round_begin, static_cast<size_t>(round) + 1, -count);
    if (round + 1 == rounds()) begin_round();
}

/// Where the other group holds the round, as that has them.
std::vector<int32_t> SequenceKv::borders_of_round(LayerGroup group, int64_t round) const {
    const int64_t begin = round_begin(group, round), count = round_tokens(static_cast<size_t>(round));
    std::vector<int32_t> begins;
    const LayerGroup other = group == LayerGroup::lower ? LayerGroup::upper : LayerGroup::lower;
    const std::vector<int32_t>& its = groups_[other].block_begin;
    if (const int64_t first = round_begin(other, round); holds(other, round) && its.front() <= first) {
        begins.assign(its.begin() + static_cast<std::ptrdiff_t>(index_of(its, first)),
                      its.begin() + static_cast<std::ptrdiff_t>(index_of(its, first + count)));
        shift_from(begins, 0, begin - first);
    } else {
        for (int64_t key = 0; key < count; key += kv_block_tokens) begins.push_back(static_cast<int32_t>(begin + key));
    }
    return begins;
}

Status SequenceKv::take_round(LayerGroup group, int64_t round) {
    Group& own = groups_[group];
    assert(pool_->shape().has(group) && !holds(group, round));
    assert(!std::ranges::binary_search(own.hidden.rounds, round));
    assert(own.block_begin.front() <= round_begin(group, round));
    const int64_t count = round_tokens(static_cast<size_t>(round));
    const std::vector<int32_t> begins = borders_of_round(group, round);
    RONDO_ASSIGN(KvLease taken, pool_->acquire(group, begins.size()));
    const size_t at = index_of(own.block_begin, round_begin(group, round));
    own.lease.insert(at, std::move(taken));
    shift_from(own.block_begin, at, count);
    own.block_begin.insert(own.block_begin.begin() + static_cast<std::ptrdiff_t>(at), begins.begin(), begins.end());
    shift_from(own.round_begin, static_cast<size_t>(round) + 1, count);
    top_up();
    return {};
}

/// In one pass over the tables, however many rounds there are.
void SequenceKv::hide_rounds(LayerGroup group, std::span<const int64_t> rounds) {
    Group& own = groups_[group];
    assert(own.block_begin.front() == 0 && (rounds.empty() || rounds.back() + 1 < this->rounds()));
    show_rounds(own);
    std::vector<KvLease::Range> ranges;
    std::vector<int32_t> begins;
    size_t block = 0;
    int32_t gone = 0;  // keys
    const auto keep_up_to = [&](size_t end) {
        for (; block < end; ++block) begins.push_back(own.block_begin[block] - gone);
    };
    for (const int64_t round : rounds) {
        if (!holds(group, round)) continue;
        const auto [first, end] = ranges.emplace_back(blocks_of_round(group, round));
        keep_up_to(first);
        const int32_t begin = own.block_begin[first];
        for (; block < end; ++block) own.hidden.begins.push_back(own.block_begin[block] - begin);
        gone += own.block_begin[end] - begin;
        own.hidden.rounds.push_back(round);
    }
    keep_up_to(own.block_begin.size());
    auto next = own.hidden.rounds.begin();
    gone = 0;
    for (size_t round = 0; round < own.round_begin.size(); ++round) {
        own.round_begin[round] -= gone;
        if (next == own.hidden.rounds.end() || static_cast<size_t>(*next) != round) continue;
        gone += static_cast<int32_t>(round_tokens(round));
        ++next;
    }
    own.block_begin = std::move(begins);
    own.hidden.lease = own.lease.take_out(ranges);
}

bool SequenceKv::hides_from(int64_t round) const {
    return std::ranges::any_of(groups_.values, [&](const Group& own) {
        return !own.hidden.rounds.empty() && own.hidden.rounds.back() >= round;
    });
}

void SequenceKv::show_rounds() {
    for (Group& own : groups_.values) show_rounds(own);
}

void SequenceKv::show_rounds(Group& own) {
    if (own.hidden.rounds.empty()) return;
    std::vector<KvLease::Range> ranges;
    std::vector<int32_t> begins;
    size_t block = 0;
    int32_t back = 0;  // keys
    auto hidden = own.hidden.begins.begin();
    for (const int64_t round : own.hidden.rounds) {
        const int32_t begin = own.round_begin[static_cast<size_t>(round)];
        for (; own.block_begin[block] < begin; ++block) begins.push_back(own.block_begin[block] + back);
        const size_t first = begins.size();
        do begins.push_back(begin + back + *hidden);
        while (++hidden != own.hidden.begins.end() && *hidden > 0);
        ranges.emplace_back(first, begins.size());
        back += static_cast<int32_t>(round_tokens(static_cast<size_t>(round)));
    }
    for (; block < own.block_begin.size(); ++block) begins.push_back(own.block_begin[block] + back);
    auto next = own.hidden.rounds.begin();
    back = 0;
    for (size_t round = 0; round < own.round_begin.size(); ++round) {
        own.round_begin[round] += back;
        if (next == own.hidden.rounds.end() || static_cast<size_t>(*next) != round) continue;
        back += static_cast<int32_t>(round_tokens(round));
        ++next;
    }
    own.block_begin = std::move(begins);
    own.lease.put_in(ranges, std::move(own.hidden.lease));
    own.hidden = {};
    top_up();
}

}  // namespace rondo
