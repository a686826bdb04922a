#include "cli/measure/attention/layer_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace rondo::cli::attention {

LayerDistances::LayerDistances(int layers, int heads)
    : layers_(static_cast<size_t>(layers)), heads_(static_cast<size_t>(heads)), squares_(heads_ * pairs()) {}

void LayerDistances::add(int head, std::span<const float> weights) {
    const size_t count = weights.size() / layers_;
    double* square = squares_.data() + static_cast<size_t>(head) * pairs();
    for (size_t i = 0; i < layers_; ++i) {
        const float* const a = weights.data() + i * count;
        for (size_t j = i + 1; j < layers_; ++j, ++square) {
            const float* const b = weights.data() + j * count;
            double sum = 0.0;
            for (size_t k = 0; k < count; ++k) {
                const double difference = static_cast<double>(a[k]) - static_cast<double>(b[k]);
                sum += difference * difference;
            }
            *square += sum;
        }
    }
}

std::vector<double> LayerDistances::means() const {
    std::vector<double> means(layers_ * layers_);
    for (size_t i = 0, pair = 0; i < layers_; ++i) {
        for (size_t j = i + 1; j < layers_; ++j, ++pair) {
            double sum = 0.0;
            for (size_t head = 0; head < heads_; ++head) sum += std::sqrt(squares_[head * pairs() + pair]);
            means[i * layers_ + j] = means[j * layers_ + i] = sum / static_cast<double>(heads_);
        }
    }
    return means;
}

Strategy choose_pairs(std::span<const double> scores, std::span<const double> distances, double gamma,
                      double layer_ratio) {
    const auto layers = static_cast<int>(scores.size());
    const auto of = [&](const LayerPair& pair) {
        return distances[static_cast<size_t>(pair.lower) * scores.size() + static_cast<size_t>(pair.upper)];
    };
    const auto may_share = [&](int layer) { return scores[static_cast<size_t>(layer)] >= gamma; };
    std::vector<LayerPair> candidates;
    for (int i = 0; i < layers; ++i) {
        for (int j = i + 1; j < layers; ++j) {
            if (may_share(i) && may_share(j)) candidates.push_back({i, j});
        }
    }
    std::ranges::stable_sort(candidates, {}, of);
    std::vector<bool> taken(scores.size());
    Strategy chosen;
    for (const LayerPair& pair : candidates) {
        if (2.0 * static_cast<double>(chosen.size()) >= layer_ratio * layers) break;
        if (taken[static_cast<size_t>(pair.lower)] || taken[static_cast<size_t>(pair.upper)]) continue;
        taken[static_cast<size_t>(pair.lower)] = taken[static_cast<size_t>(pair.upper)] = true;
        chosen.push_back(pair);
    }
    std::ranges::sort(chosen);
    return chosen;
}

std::vector<StrategyUse> count_strategies(std::span<const Strategy> chosen) {
    std::map<Strategy, int> counts;
    for (const Strategy& strategy : chosen) ++counts[strategy];
    std::vector<StrategyUse> uses;
    for (const auto& [pairs, count] : counts) uses.push_back({pairs, count});
    std::ranges::stable_sort(uses, std::greater<>(), &StrategyUse::conversations);
    return uses;
}

double share_that_differs(std::span<const StrategyUse> uses) {
    double all = 0.0, same = 0.0;
    for (const StrategyUse& use : uses) {
        const double count = use.conversations;
        all += count;
        same += count * (count - 1.0);
    }
    return all < 2.0 ? 0.0 : 1.0 - same / (all * (all - 1.0));
}

}  // namespace rondo::cli::attention
