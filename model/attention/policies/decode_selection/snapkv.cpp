#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

constexpr int published_pool = 7;

/// SnapKV: the prompt's last queries choose once what all of the answer will see.
class SnapKv final : public BudgetSelection {
public:
    explicit SnapKv(const DecodeAttention& settings)
        : BudgetSelection(settings),
          kept_{.budget = budget(),
                .recent = window_within(settings.window, budget()),
                .max_pool = max_pool_of(settings, published_pool)} {}

    ChoiceTriggers triggers() const override { return {.after_prefill = true}; }
    int queries() const override { return static_cast<int>(kept_.recent); }
    bool evicts() const override { return true; }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        choose_best(scores, kept_, chosen);
    }

private:
    KeptKeys kept_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_snapkv(const DecodeAttention& settings) {
    return std::make_unique<SnapKv>(settings);
}

}  // namespace rondo
