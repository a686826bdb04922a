#include <algorithm>

#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

const MaxPool best_max_pool{7, /*around_it=*/false};  // the paper has none

/// LoopServe's progressive decoding (paper §5.2, Alg. 3): every `reselect_every` steps the last queries, those of the
/// answer included, score all keys there are. Nothing is given up, so what one selection misses the next one may find.
/// The paper scores by all n_d queries since the last selection; `observe` of them are cheaper: the last one, and every
/// (n_d / observe)-th before it, as far back as 256 steps.
class Progressive final : public BudgetSelection {
public:
    explicit Progressive(const DecodeAttention& settings)
        : BudgetSelection(settings),
          triggers_(choice_triggers(settings)),
          queries_(std::min(settings.observe, settings.reselect_every)),
          kept_{.budget = budget(),
                .recent = window_within(settings.reselect_every, budget()),
                .max_pool = max_pool_of(settings, best_max_pool)} {
        kept_.sinks = std::min<int64_t>(settings.sinks, kept_.budget - kept_.recent);
    }

    ChoiceTriggers triggers() const override { return triggers_; }
    int queries() const override { return queries_; }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        choose_best(scores, kept_, chosen);
    }

private:
    ChoiceTriggers triggers_;
    int queries_;
    KeptKeys kept_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_progressive(const DecodeAttention& settings) {
    return std::make_unique<Progressive>(settings);
}

}  // namespace rondo
