#include <cassert>

#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"

namespace rondo {

namespace {

constexpr int published_pool = 7;

/// How many of the `total` greatest ranks of all heads lie in each head; `ranks` is [heads, total of a head]. Equal
/// ranks at the cut go to the heads in turn: handed out in the order of heads, equal scores would starve the last one.
std::vector<int64_t> count_by_head(std::span<const uint32_t> ranks, size_t heads, int64_t total, TopKeys& top) {
    std::vector<int64_t> counts(heads), ties(heads);
    const TopKeys::Cut cut = top.cut(ranks, total);
    const size_t keys = ranks.size() / heads;
    for (size_t head = 0; head < heads; ++head) {
        for (const uint32_t rank : ranks.subspan(head * keys, keys)) {
            counts[head] += rank > cut.rank ? 1 : 0;
            ties[head] += rank == cut.rank ? 1 : 0;
        }
    }
    for (int64_t left = cut.ties; left > 0;) {
        for (size_t head = 0; head < heads && left > 0; ++head) {
            if (ties[head] == 0) continue;
            ++counts[head];
            --ties[head];
            --left;
        }
    }
    return counts;
}

/// (1 − a)·count + a·C for a = 0.2, in fifths and so exactly: all are rounded down, then those with the greatest
/// remainders get one more until the sum is that of the counts, which is C for each head.
void smooth(std::span<int64_t> counts, int64_t per_head) {
    std::vector<int64_t> remainders;
    int64_t left = static_cast<int64_t>(counts.size()) * per_head;
    for (int64_t& count : counts) {
        const int64_t fifths = 4 * count + per_head;
        remainders.push_back(fifths % 5);
        count = fifths / 5;
        left -= count;
    }
    for (int64_t remainder = 4; remainder > 0; --remainder) {
        for (size_t head = 0; head < counts.size() && left > 0; ++head) {
            if (remainders[head] != remainder) continue;
            ++counts[head];
            --left;
        }
    }
    assert(left == 0);
}

/// AdaKV: SnapKV's scores, but the heads of a layer share one budget, so that a head which looks at few keys leaves
/// its room to one that looks at many. The results are ragged.
class AdaKv final : public BudgetSelection {
public:
    explicit AdaKv(const DecodeAttention& settings)
        : BudgetSelection(settings),
          window_(window_within(settings.window, budget())),
          max_pool_(max_pool_of(settings, published_pool)) {}

    ChoiceTriggers triggers() const override { return {.after_prefill = true}; }
    int queries() const override { return static_cast<int>(window_); }
    bool evicts() const override { return true; }

protected:
    void choose(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        const size_t heads = chosen.size();
        assert(scores.weights.size() == heads * static_cast<size_t>(scores.keys));
        const int64_t last = scores.keys - window_;
        const int64_t per_head = budget() - window_;
        const auto keys = static_cast<size_t>(last);
        TopKeys top;
        std::vector<uint32_t> ranks(heads * keys);
        for (size_t head = 0; head < heads; ++head) {
            top.rank(scores.weights.subspan(head * static_cast<size_t>(scores.keys), keys), max_pool_,
                     std::span(ranks).subspan(head * keys, keys));
        }
        std::vector<int64_t> counts(heads);
        if (per_head > 0) {
            counts = count_by_head(ranks, heads, static_cast<int64_t>(heads) * per_head, top);
            smooth(counts, per_head);
        }
        for (size_t head = 0; head < heads; ++head) {
            top.append(std::span(ranks).subspan(head * keys, keys), counts[head], 0, chosen[head]);
            append_range(last, scores.keys, chosen[head]);
        }
    }

private:
    int64_t window_;
    MaxPool max_pool_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_adakv(const DecodeAttention& settings) {
    return std::make_unique<AdaKv>(settings);
}

}  // namespace rondo
