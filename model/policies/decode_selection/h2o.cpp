#include "model/policies/decode_selection/budget_selection.hpp"
#include "model/policies/decode_selection/methods.hpp"
#include "model/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

/// H2O: half the budget for the keys that gathered the most attention so far, half for the most recent ones; the newest
/// key always stays, so of an odd budget the recent half is the greater.
///
/// The scores are sums over all queries of the conversation, which the runtime keeps for the keys that are left: after
/// a prompt those of its sampled rows, then one more query each step. That is why `queries` is 1.
class H2o final : public BudgetSelection {
public:
    explicit H2o(const DecodeAttention& settings)
        : BudgetSelection(settings), kept_{.budget = budget(), .recent = budget() - budget() / 2} {}

    SelectionTriggers triggers() const override { return {.after_prefill = true, .every = 1}; }
    int queries() const override { return 1; }
    bool evicts() const override { return true; }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        choose_best(scores, kept_, chosen);
    }

private:
    KeptKeys kept_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_h2o(const DecodeAttention& settings) {
    return std::make_unique<H2o>(settings);
}

}  // namespace rondo
