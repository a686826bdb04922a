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

std::pair<size_t, size_t> SequenceKv::blocks_of_round(LayerGroup group, int64_t round) const {
    const std::vector<int32_t>& begins = groups_[group].block_begin;
    return {index_of(begins, round_begin(group, round)), index_of(begins, round_end(group, round))};
}

void SequenceKv::leave_out(LayerGroup group, int64_t round, size_t first, size_t last) {
    Group& own = groups_[group];
    const int64_t count = round_end(group, round) - round_begin(group, round);
    own.block_begin.erase(own.block_begin.begin() + static_cast<std::ptrdiff_t>(first),
                          own.block_begin.begin() + static_cast<std::ptrdiff_t>(last));
    shift_from(own.block_begin, first, -count);
    shift_from(own.round_begin, static_cast<size_t>(round) + 1, -count);
}

void SequenceKv::release_round(LayerGroup group, int64_t round) {
    groups_[group].hidden.erase(round);
    if (!holds(group, round)) return;
    const auto [first, last] = blocks_of_round(group, round);
    groups_[group].lease.drop(first, last - first);
    leave_out(group, round, first, last);
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

void SequenceKv::put_in(LayerGroup group, int64_t round, const std::vector<int32_t>& begins, KvLease&& lease) {
    Group& own = groups_[group];
    const int64_t count = round_tokens(static_cast<size_t>(round));
    const size_t at = index_of(own.block_begin, round_begin(group, round));
    own.lease.insert(at, std::move(lease));
    shift_from(own.block_begin, at, count);
    own.block_begin.insert(own.block_begin.begin() + static_cast<std::ptrdiff_t>(at), begins.begin(), begins.end());
    shift_from(own.round_begin, static_cast<size_t>(round) + 1, count);
}

Status SequenceKv::take_round(LayerGroup group, int64_t round) {
    assert(pool_->shape().has(group) && !holds(group, round) && !groups_[group].hidden.contains(round));
    assert(groups_[group].block_begin.front() <= round_begin(group, round));
    const std::vector<int32_t> begins = borders_of_round(group, round);
    RONDO_ASSIGN(KvLease taken, pool_->acquire(group, begins.size()));
    put_in(group, round, begins, std::move(taken));
    top_up();
    return {};
}

void SequenceKv::hide_round(LayerGroup group, int64_t round) {
    assert(round + 1 < rounds() && groups_[group].block_begin.front() == 0);
    if (!holds(group, round)) return;
    Group& own = groups_[group];
    const auto [first, last] = blocks_of_round(group, round);
    own.hidden.emplace(round, own.lease.share(first, last - first));
    own.lease.drop(first, last - first);
    leave_out(group, round, first, last);
}

bool SequenceKv::hides_from(int64_t round) const {
    return std::ranges::any_of(groups_.values,
                               [&](const Group& own) { return own.hidden.lower_bound(round) != own.hidden.end(); });
}

void SequenceKv::show_rounds() {
    for (const LayerGroup group : layer_groups) {
        Group& own = groups_[group];
        for (auto& [round, lease] : own.hidden) put_in(group, round, borders_of_round(group, round), std::move(lease));
        own.hidden.clear();
    }
}

}  // namespace rondo
