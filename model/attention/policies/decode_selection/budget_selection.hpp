#pragma once

#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

/// What all methods share: a budget of keys for each KV head. Where there are no more keys than that, all of them are
/// chosen and the method is not asked, so that the identity with dense is written once.
class BudgetSelection : public DecodeSelection {
public:
    bool wanted(int64_t keys) const final { return keys > budget_; }
    void select(const KeyScores& scores, uint64_t seed, std::span<std::vector<int32_t>> chosen) const final;

protected:
    explicit BudgetSelection(const DecodeAttention& settings);
    /// There are more keys than the budget, and every entry of `chosen` is empty.
    virtual void choose(const KeyScores& scores, uint64_t seed, std::span<std::vector<int32_t>> chosen) const = 0;
    int64_t budget() const { return budget_; }

private:
    int64_t budget_;
};

/// Of methods that choose anew while they answer, progressive and the controls beside it.
ChoiceTriggers choice_triggers(const DecodeAttention& settings);

/// The max pool that settings ask for; what they leave open is as the method has it.
MaxPool max_pool_of(const DecodeAttention& settings, MaxPool of_method);

/// How many of the last keys stay with a method that looks at `window` queries: no more than a quarter of the budget,
/// so that a small one still has room for what is far, and at least one, the newest key.
int64_t window_within(int window, int64_t budget);

}  // namespace rondo
