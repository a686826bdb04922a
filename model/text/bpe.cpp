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

void BpeMerger::look_up(uint32_t at) {
    Symbol& symbol = symbols_[at];
    symbol.merged = -1;
    if (symbol.next == none) return;
    if (const auto* merge = merges_->find(symbol.id, symbols_[symbol.next].id)) {
        symbol.rank = merge->rank;
        symbol.merged = merge->id;
        queue_.push_back(static_cast<uint64_t>(merge->rank) << 32 | at);
    }
}

void BpeMerger::merge(std::span<const int32_t> symbols, std::vector<int32_t>& out) {
    if (symbols.size() < 2) {
        out.insert(out.end(), symbols.begin(), symbols.end());
        return;
    }
    const auto count = static_cast<uint32_t>(symbols.size());
    symbols_.resize(count);
    queue_.clear();
    for (uint32_t i = 0; i < count; ++i)
        symbols_[i] = {symbols[i], i == 0 ? none : i - 1, i + 1 < count ? i + 1 : none, 0, -1};
    for (uint32_t i = 0; i < count; ++i) look_up(i);
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    for (size_t taken = 1; !queue_.empty(); ++taken) {
        if (taken % looks_apart == 0 && stop_.stop_requested()) break;
        std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
        const auto rank = static_cast<uint32_t>(queue_.back() >> 32);
        const auto at = static_cast<uint32_t>(queue_.back());
        queue_.pop_back();
        Symbol& left = symbols_[at];
        if (left.merged < 0 || left.rank != rank) continue;

        Symbol& right = symbols_[left.next];
        left.id = left.merged;
        left.next = right.next;
        right.merged = -1;
        if (left.next != none) symbols_[left.next].previous = at;
        for (const uint32_t changed : {left.previous, at}) {
            if (changed == none) continue;
            const size_t queued = queue_.size();
            look_up(changed);
            if (queue_.size() > queued) std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
        }
    }
    for (uint32_t at = 0; at != none; at = symbols_[at].next) out.push_back(symbols_[at].id);
}

}  // namespace rondo
