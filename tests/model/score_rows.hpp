#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "model/attention/policies/decode_selection/decode_selection.hpp"

/// Scores as attention makes them and as it should not, and what a selection does with them, done the slow way.
namespace rondo::testing {

enum class ScoreKind { peaked, uniform, few_values, equal, zero, spike, denormal, huge };
inline constexpr ScoreKind score_kinds[] = {ScoreKind::peaked,   ScoreKind::uniform, ScoreKind::few_values,
                                            ScoreKind::equal,    ScoreKind::zero,    ScoreKind::spike,
                                            ScoreKind::denormal, ScoreKind::huge};

inline std::vector<float> make_scores(ScoreKind kind, size_t count, std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
    std::normal_distribution<float> normal(0.0F, 4.0F);
    std::vector<float> scores(count);
    for (float& score : scores) {
        switch (kind) {
            case ScoreKind::peaked:
                score = std::exp(normal(random));
                break;
            case ScoreKind::uniform:
                score = uniform(random);
                break;
            case ScoreKind::few_values:
                score = static_cast<float>(random() % 4) * 0.25F;
                break;
            case ScoreKind::equal:
                score = 0.125F;
                break;
            case ScoreKind::zero:
                break;
            case ScoreKind::spike:
                score = 1e-6F;
                break;
            case ScoreKind::denormal:
                score = static_cast<float>(random() % 100) * std::numeric_limits<float>::denorm_min();
                break;
            case ScoreKind::huge:
                score = uniform(random) * std::numeric_limits<float>::max();
                break;
        }
    }
    if (kind == ScoreKind::spike && count > 0) scores[random() % count] = 1e6F;
    return scores;
}

/// The greatest of each window of `pool` around a score, one further back than ahead when it is even; or of those that
/// end with it.
inline std::vector<float> naive_pool(const std::vector<float>& scores, int pool, bool around = true) {
    const auto count = static_cast<int64_t>(scores.size());
    std::vector<float> pooled(scores.size());
    for (int64_t i = 0; i < count; ++i) {
        const int64_t first = std::max<int64_t>(0, i - (around ? pool / 2 : pool - 1));
        const int64_t last = std::min(count - 1, i + (around ? (pool - 1) / 2 : 0));
        pooled[static_cast<size_t>(i)] = *std::max_element(scores.begin() + first, scores.begin() + last + 1);
    }
    return pooled;
}

/// Places of the greatest, ascending, each plus `first`; of equal ones the earlier.
inline std::vector<int32_t> naive_top(const std::vector<float>& scores, int64_t count, int32_t first = 0) {
    std::vector<int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int32_t a, int32_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
    order.resize(static_cast<size_t>(count));
    std::ranges::sort(order);
    for (int32_t& place : order) place += first;
    return order;
}

inline std::vector<int32_t> key_range(int64_t first, int64_t last) {
    std::vector<int32_t> keys(static_cast<size_t>(last - first));
    std::iota(keys.begin(), keys.end(), static_cast<int32_t>(first));
    return keys;
}

using Chosen = std::vector<std::vector<int32_t>>;

/// The keys of some KV heads and their scores, a row for each.
struct ScoreRows {
    int kv_heads = 0;
    int64_t keys = 0;
    std::vector<float> weights = {};

    std::vector<float> between(int head, int64_t first, int64_t last) const {
        const auto row = weights.begin() + head * keys;
        return {row + first, row + last};
    }
};

inline ScoreRows random_rows(std::mt19937& random, int64_t keys_max) {
    ScoreRows rows{.kv_heads = 1 + static_cast<int>(random() % 4),
                   .keys = 1 + static_cast<int64_t>(random()) % keys_max};
    for (int head = 0; head < rows.kv_heads; ++head) {
        const auto kind = score_kinds[random() % std::size(score_kinds)];
        const auto row = make_scores(kind, static_cast<size_t>(rows.keys), random);
        rows.weights.insert(rows.weights.end(), row.begin(), row.end());
    }
    return rows;
}

inline DecodeAttention random_settings(std::mt19937& random, DecodeAttention::Method method, int budget) {
    const auto up_to = [&](int last) { return 1 + static_cast<int>(random() % static_cast<unsigned>(last)); };
    return {.method = method,
            .budget_tokens = budget,
            .reselect_every = up_to(40),
            .observe = up_to(40),
            .pool = up_to(9),
            .window = up_to(64),
            .sinks = up_to(8) - 1};
}

inline Chosen chosen_by(const DecodeSelection& selection, const ScoreRows& rows, uint64_t seed = 1) {
    Chosen chosen(static_cast<size_t>(rows.kv_heads), {5, 3, 1000});  // to be overwritten
    selection.select({.kv_heads = rows.kv_heads, .keys = rows.keys, .weights = rows.weights}, seed, chosen);
    if (!selection.wanted(rows.keys)) return chosen;
    for (auto& keys : chosen)  // a window that slides is attended to without being chosen
        for (int64_t key = selection.tail_begin(rows.keys, rows.keys); key < rows.keys; ++key)
            keys.push_back(static_cast<int32_t>(key));
    return chosen;
}

inline Chosen chosen_by(const DecodeAttention& settings, const ScoreRows& rows, uint64_t seed = 1) {
    return chosen_by(*make_decode_selection(settings), rows, seed);
}

}  // namespace rondo::testing
