#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

/// H2O: half the budget is for the keys that have gathered the most attention so far, half for a window of the most
/// recent ones. The window slides. The newest key always stays, so the recent half of an odd budget is the greater.
///
/// The paper sums over all queries so far. Here the choice sums over the prompt's last `window` queries, because no
/// more of them are kept. From then on every query counts (model/attention/heavy_keys.hpp).
class H2o final : public BudgetSelection {
public:
    explicit H2o(const DecodeAttention& settings)
        : BudgetSelection(settings),
          queries_(settings.window),
          heavy_(budget() / 2),
          max_pool_(max_pool_of(settings, 1)) {}

    ChoiceTriggers triggers() const override { return {.after_prefill = true, .every = 1, .once = true}; }
    int queries() const override { return queries_; }
    bool evicts() const override { return true; }
    bool accumulates() const override { return true; }
    int64_t tail_begin(int64_t, int64_t keys) const override { return keys - (budget() - heavy_); }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        const int64_t recent = budget() - heavy_;
        choose_best(scores, {.budget = budget(), .recent = recent, .max_pool = max_pool_}, chosen);
        for (std::vector<int32_t>& keys : chosen) keys.resize(keys.size() - static_cast<size_t>(recent));
    }

private:
    int queries_;
    int64_t heavy_;
    MaxPool max_pool_;  // of the first choice; the paper has none
};

}  // namespace

std::unique_ptr<DecodeSelection> make_h2o(const DecodeAttention& settings) {
    return std::make_unique<H2o>(settings);
}

}  // namespace rondo
