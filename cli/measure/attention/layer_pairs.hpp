#pragma once

#include <compare>
#include <span>
#include <vector>

namespace rondo::cli::attention {

/// Two layers that would share their KV, counted from 0.
struct LayerPair {
    int lower = 0, upper = 0;
    auto operator<=>(const LayerPair&) const = default;
};
/// The pairs of a conversation, in order of their lower layers (Krul's compression strategy).
using Strategy = std::vector<LayerPair>;

/// How far the attention of any two layers lies apart (Krul §4.2): per head the Euclidean distance of all rows that
/// were added, then the mean over heads. Rows are added as they go by and not kept. Different heads may be added by
/// different threads at a time.
class LayerDistances {
public:
    LayerDistances(int layers, int heads);

    /// Some rows of a head: weights [layers, count], the same rows in every layer.
    void add(int head, std::span<const float> weights);
    /// [layers, layers], symmetric, 0 on the diagonal.
    std::vector<double> means() const;

private:
    size_t pairs() const { return layers_ * (layers_ - 1) / 2; }

    size_t layers_, heads_;
    std::vector<double> squares_;  // [heads, pairs]; pairs (0,1), (0,2) … (1,2) …
};

/// The closest pairs of the layers whose I-R score is at least `gamma`, each layer in one pair at the most, until the
/// pairs hold `layer_ratio` of all layers. `distances` [layers, layers].
Strategy choose_pairs(std::span<const double> scores, std::span<const double> distances, double gamma,
                      double layer_ratio);

/// How many conversations chose a strategy.
struct StrategyUse {
    Strategy pairs;
    int conversations = 0;
};
/// The most frequent first.
std::vector<StrategyUse> count_strategies(std::span<const Strategy> chosen);
/// The share of all pairs of conversations that chose different strategies; 0 of fewer than two.
double share_that_differs(std::span<const StrategyUse> uses);

}  // namespace rondo::cli::attention
