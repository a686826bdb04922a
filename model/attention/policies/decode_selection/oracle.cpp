#include "model/attention/policies/decode_selection/oracle.hpp"

#include <algorithm>

#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"

namespace rondo {

namespace {

class Oracle final : public BudgetSelection {
public:
    Oracle(const DecodeAttention& settings, std::vector<std::pair<int32_t, int32_t>> gold)
        : BudgetSelection(settings), triggers_(choice_triggers(settings)), gold_(std::move(gold)) {}

    ChoiceTriggers triggers() const override { return triggers_; }
    int queries() const override { return 0; }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        std::vector<bool> taken(static_cast<size_t>(scores.keys));
        int64_t left = budget();
        const auto take = [&](int64_t key) {
            if (left == 0 || taken[static_cast<size_t>(key)]) return;
            taken[static_cast<size_t>(key)] = true;
            --left;
        };
        for (const auto& [first, last] : gold_) {
            const int64_t end = std::min<int64_t>(last, scores.keys);
            for (int64_t key = std::max(first, 0); key < end; ++key) take(key);
        }
        for (int64_t key = scores.keys - 1; left > 0; --key) take(key);
        for (std::vector<int32_t>& keys : chosen) {
            for (size_t key = 0; key < taken.size(); ++key) {
                if (taken[key]) keys.push_back(static_cast<int32_t>(key));
            }
        }
    }

private:
    ChoiceTriggers triggers_;
    std::vector<std::pair<int32_t, int32_t>> gold_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_oracle_selection(const DecodeAttention& settings,
                                                       std::vector<std::pair<int32_t, int32_t>> gold) {
    return std::make_unique<Oracle>(settings, std::move(gold));
}

/// Where the right keys are is known to an evaluation only; for everyone else there are none.
std::unique_ptr<DecodeSelection> make_oracle(const DecodeAttention& settings) {
    return make_oracle_selection(settings, {});
}

}  // namespace rondo
