#include "model/attention/policies/decode_selection/budget_selection.hpp"

#include <algorithm>
#include <cassert>

namespace rondo {

BudgetSelection::BudgetSelection(const DecodeAttention& settings) : budget_(settings.budget_tokens) {
    assert(budget_ >= 1);
}

void BudgetSelection::select(const KeyScores& scores, uint64_t seed, std::span<std::vector<int32_t>> chosen) const {
    assert(chosen.size() == static_cast<size_t>(scores.kv_heads));
    for (std::vector<int32_t>& keys : chosen) {
        keys.clear();
        if (!wanted(scores.keys)) append_range(0, scores.keys, keys);
    }
    if (wanted(scores.keys)) choose(scores, seed, chosen);
}

ChoiceTriggers choice_triggers(const DecodeAttention& settings) {
    return {.every = settings.reselect_every, .first = settings.cold_tokens};
}

MaxPool max_pool_of(const DecodeAttention& settings, MaxPool of_method) {
    using Side = DecodeAttention::PoolSide;
    const bool around = settings.pool_side == Side::own ? of_method.around : settings.pool_side == Side::around;
    return {settings.pool > 0 ? settings.pool : of_method.keys, around};
}

int64_t window_within(int window, int64_t budget) {
    return std::clamp<int64_t>(window, 1, std::max<int64_t>(1, budget / 4));
}

}  // namespace rondo
