#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

/// A control: the last keys, chosen anew as often as the method beside it.
class Recent final : public BudgetSelection {
public:
    explicit Recent(const DecodeAttention& settings)
        : BudgetSelection(settings), triggers_(choice_triggers(settings)) {}

    ChoiceTriggers triggers() const override { return triggers_; }
    int queries() const override { return 0; }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (std::vector<int32_t>& keys : chosen) append_range(scores.keys - budget(), scores.keys, keys);
    }

private:
    ChoiceTriggers triggers_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_recent(const DecodeAttention& settings) {
    return std::make_unique<Recent>(settings);
}

}  // namespace rondo
