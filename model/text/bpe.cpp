#include "model/text/bpe.hpp"

#include <algorithm>
#include <functional>
#include <string>

namespace rondo {

namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr size_t looks_apart = 1024;  // entries of a queue between two looks at whether to stop

uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Status BpeMerges::add(int32_t left, int32_t right, Merge merge) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    const TablePlace place = place_of(pair_of(left, right));
    if (place.is_chosen())
        return make_error(ErrorCode::corrupt, "the merge of tokens " + std::to_string(left) + " and " +
                                                  std::to_string(right) +
                                                  " has the hash of too many others; no merges have that by chance");
    Slot& slot = slots_[place.slot];
    if (slot.pair == free_pair) ++used_;
    slot = {pair_of(left, right), merge};
    return Status::ok();
}

const BpeMerges::Merge* BpeMerges::find(int32_t left, int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place_of(pair_of(left, right)).slot];
    return slot.pair == free_pair ? nullptr : &slot.merge;
}

TablePlace BpeMerges::place_of(uint64_t pair) const {
    // Two rounds of multiply and fold: ids are dense, so both halves of the pair must reach the low bits.
    uint64_t hash = pair * 0x9E3779B97F4A7C15;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93;
    return place_in_table(hash ^ hash >> 32, slots_.size(),
                          [&](size_t slot) { return slots_[slot].pair != free_pair && slots_[slot].pair != pair; });
}

void BpeMerges::grow() {
    std::vector<Slot> before(slots_.empty() ? 1024 : 2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before)
        if (slot.pair != free_pair) slots_[place_of(slot.pair).slot] = slot;
}

void BpeMerger::look_up(std::span<const int32_t> ids, uint32_t at) {
    Symbol& symbol = symbols_[at];
    symbol.rank = none;
    const uint32_t next = at + symbol.length;
    if (next == ids.size()) return;
    if (const auto* merge = merges_->find(ids[at], ids[next])) {
        symbol.rank = merge->rank;
        queue_.push_back(static_cast<uint64_t>(merge->rank) << 32 | at);
    }
}

void BpeMerger::merge(std::span<int32_t> ids, std::vector<int32_t>& out) {
    const auto count = static_cast<uint32_t>(ids.size());
    symbols_.assign(count, {1, none});
    queue_.clear();
    queue_.reserve(count);
    for (uint32_t i = 0; i < count; ++i) look_up(ids, i);
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    for (size_t taken = 1; !queue_.empty(); ++taken) {
        if (taken % looks_apart == 0 && stop_.stop_requested()) break;
        std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
        const auto rank = static_cast<uint32_t>(queue_.back() >> 32);
        const auto at = static_cast<uint32_t>(queue_.back());
        queue_.pop_back();
        Symbol& left = symbols_[at];
        if (left.rank != rank) continue;

        const uint32_t middle = at + left.length, end = middle + symbols_[middle].length;
        ids[at] = merges_->find(ids[at], ids[middle])->id;
        symbols_[middle].rank = none;
        left.length = symbols_[end - 1].length = end - at;
        for (const uint32_t changed : {at == 0 ? none : at - symbols_[at - 1].length, at}) {
            if (changed == none) continue;
            const size_t queued = queue_.size();
            look_up(ids, changed);
            if (queue_.size() > queued) std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
        }
    }
    for (uint32_t at = 0; at < count; at += symbols_[at].length) out.push_back(ids[at]);
}

}  // namespace rondo
