#include <algorithm>

#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

/// StreamingLLM: the sinks, chosen once, and behind them a window of the most recent keys that slides with every step,
/// whatever was said between. Keys keep the positions they were written at, or with `shift` have those in the cache, as
/// in the paper.
class StreamingLlm final : public BudgetSelection {
public:
    explicit StreamingLlm(const DecodeAttention& settings)
        : BudgetSelection(settings), sinks_(std::min<int64_t>(settings.sinks, budget() - 1)), shifts_(settings.shift) {}

    ChoiceTriggers triggers() const override { return {.after_prefill = true, .every = 1, .once = true}; }
    int queries() const override { return 0; }
    bool evicts() const override { return true; }
    bool shifts() const override { return shifts_; }
    int64_t tail_begin(int64_t, int64_t keys) const override { return keys - (budget() - sinks_); }

protected:
    void choose(const KeyScores&, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (std::vector<int32_t>& keys : chosen) append_range(0, sinks_, keys);
    }

private:
    int64_t sinks_;  // leaves room for the newest key
    bool shifts_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_streaming_llm(const DecodeAttention& settings) {
    return std::make_unique<StreamingLlm>(settings);
}

}  // namespace rondo
