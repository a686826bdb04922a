#include "memory/sequence_kv.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "config/checked.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

constexpr LayerGroup groups[] = {LayerGroup::lower, LayerGroup::upper};

/// `reserve` by the exact count would make growth by single blocks quadratic.
template <class T>
void make_room(std::vector<T>& table, size_t count) {
    if (count > table.capacity()) table.reserve(std::max(count, 2 * table.capacity()));
}

}  // namespace

SequenceKv::SequenceKv(KvPool& pool) : pool_(&pool) {
    // No blocks yet, so this cannot fail: it only binds the leases to the pool.
    for (const LayerGroup group : groups) {
        leases_[static_cast<int>(group)] = pool.acquire(group, 0).value();
        spare_[static_cast<int>(group)] = pool.acquire(group, 0).value();
    }
}

void SequenceKv::begin_round() {
    if (fresh_block_) return;
    fresh_block_ = true;
    reserve(tokens_reserved_);
}

void SequenceKv::attach(KvLease lower, KvLease upper, std::span<const int32_t> sizes) {
    assert(tokens_ == 0 && block_begin_.size() == 1);
    if (sizes.empty()) return;
    leases_[static_cast<int>(LayerGroup::lower)].append(std::move(lower));
    leases_[static_cast<int>(LayerGroup::upper)].append(std::move(upper));
    round_begin_.push_back(0);
    for (const int32_t size : sizes) {
        tokens_ += size;
        block_begin_.push_back(static_cast<int32_t>(tokens_));
    }
    attached_ = tokens_;
    fresh_block_ = true;
}

SequenceKv SequenceKv::share() const {
    SequenceKv made(*pool_);
    for (const LayerGroup group : groups)
        made.leases_[static_cast<int>(group)] = leases_[static_cast<int>(group)].share();
    made.tokens_ = made.attached_ = tokens_;  // what comes behind them would open a round
    made.round_begin_ = round_begin_;
    made.block_begin_ = block_begin_;
    return made;
}

int64_t SequenceKv::blocks_for(int64_t count) const {
    const size_t blocks = block_begin_.size() - 1;
    const int64_t room = fresh_block_ ? 0 : kv_block_tokens - (tokens_ - block_begin_[blocks - 1]);
    return ceil_div<int64_t>(std::max<int64_t>(0, count - room), kv_block_tokens);
}

Status SequenceKv::set_aside(int64_t count) {
    const auto wanted = static_cast<size_t>(blocks_for(count));
    const auto has = [&](LayerGroup group) { return spare_[static_cast<int>(group)].blocks().size(); };
    size_t before[layer_groups];
    for (const LayerGroup group : groups) {
        before[static_cast<int>(group)] = has(group);
        if (pool_->shape().layers_in(group) == 0 || has(group) >= wanted) continue;
        if (Status taken = pool_->extend(spare_[static_cast<int>(group)], wanted - has(group)); !taken) {
            for (const LayerGroup done : groups) {
                if (done > group) break;
                spare_[static_cast<int>(done)].truncate(before[static_cast<int>(done)]);
            }
            return taken;
        }
    }
    return {};
}

Status SequenceKv::extend(int64_t count) {
    if (count < 0 || count > limits::context_tokens_max - tokens_)
        return make_error(ErrorCode::out_of_range, "sequence KV: " + std::to_string(count) +
                                                       " more tokens asked for, must be 0 to " +
                                                       std::to_string(limits::context_tokens_max - tokens_));
    if (count == 0) return {};
    const size_t blocks = block_begin_.size() - 1;
    const int64_t room = fresh_block_ ? 0 : kv_block_tokens - (tokens_ - block_begin_[blocks - 1]);
    const int64_t beyond = std::max<int64_t>(0, count - room);
    const auto added = static_cast<size_t>(blocks_for(count));
    make_room(block_begin_, block_begin_.size() + added);
    if (fresh_block_) make_room(round_begin_, round_begin_.size() + 1);

    RONDO_TRY(set_aside(count));
    for (const LayerGroup group : groups) {
        if (pool_->shape().layers_in(group) == 0) continue;
        leases_[static_cast<int>(group)].take_last(spare_[static_cast<int>(group)], added);
    }
    if (fresh_block_) round_begin_.push_back(tokens_);
    fresh_block_ = false;
    tokens_ += count;
    block_begin_.pop_back();
    for (size_t i = 0; i < added; ++i)
        block_begin_.push_back(static_cast<int32_t>(tokens_ - beyond + static_cast<int64_t>(i) * kv_block_tokens));
    block_begin_.push_back(static_cast<int32_t>(tokens_));
    return {};
}

void SequenceKv::truncate(int64_t tokens) {
    assert(tokens >= first_held() && tokens <= tokens_);
    if (tokens == tokens_) return;
    // Blocks that begin before the cut stay.
    const auto cut = std::lower_bound(block_begin_.begin(), block_begin_.end(), tokens);
    const auto blocks = static_cast<size_t>(cut - block_begin_.begin());
    block_begin_.resize(blocks + 1);
    block_begin_[blocks] = static_cast<int32_t>(tokens);
    for (KvLease& lease : leases_) lease.truncate(blocks);
    tokens_ = tokens;
    fresh_block_ = false;
    while (!round_begin_.empty() && round_begin_.back() >= tokens) {
        fresh_block_ = round_begin_.back() == tokens;
        round_begin_.pop_back();
    }
    if (tokens < attached_) {  // its last block may be shared and must not be written
        attached_ = tokens;
        fresh_block_ = true;
    }
}

void SequenceKv::release_before(int64_t token) {
    assert(token <= tokens_);
    const size_t blocks = block_begin_.size() - 1;
    size_t gone = 0;
    while (gone + 1 < blocks && block_begin_[gone + 1] <= token) ++gone;
    for (const LayerGroup group : groups) {
        if (pool_->shape().layers_in(group) > 0) leases_[static_cast<int>(group)].drop_first(gone);
    }
    block_begin_.erase(block_begin_.begin(), block_begin_.begin() + static_cast<std::ptrdiff_t>(gone));
}

void SequenceKv::reserve(int64_t tokens) {
    tokens_reserved_ = std::clamp<int64_t>(tokens, tokens_reserved_, limits::context_tokens_max);
    const int64_t more = std::max<int64_t>(0, tokens_reserved_ - tokens_);
    const size_t blocks = block_begin_.size() - 1 + static_cast<size_t>(ceil_div<int64_t>(more, kv_block_tokens));
    make_room(round_begin_, round_begin_.size() + 1);
    make_room(block_begin_, blocks + 1);
    for (const LayerGroup group : groups)
        if (pool_->shape().layers_in(group) > 0) {
            leases_[static_cast<int>(group)].reserve(blocks);
            spare_[static_cast<int>(group)].reserve(blocks);
        }
}

int32_t SequenceKv::slot(LayerGroup group, int64_t token) const {
    assert(token >= 0 && token < tokens_);
    const auto next = std::upper_bound(block_begin_.begin(), block_begin_.end(), token);
    const auto block = static_cast<size_t>(next - block_begin_.begin()) - 1;
    return blocks(group)[block] * kv_block_tokens + static_cast<int32_t>(token - block_begin_[block]);
}

}  // namespace rondo
