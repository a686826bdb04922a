#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "model/attention/policies/decode_selection/oracle.hpp"
#include "tests/model/score_rows.hpp"

// AdaKV, which shares a budget among heads, and the controls.

namespace rondo {
namespace {

using testing::Chosen;
using testing::chosen_by;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::key_range;
using testing::naive_pool;
using testing::naive_top;
using testing::random_rows;
using testing::random_settings;
using testing::ScoreKind;
using testing::ScoreRows;
using Method = DecodeAttention::Method;

/// Of the best of all heads' candidates, how many lie in each head; equal scores go round the heads.
std::vector<int64_t> naive_counts(const std::vector<std::vector<float>>& pooled, int64_t total) {
    struct Entry {
        float score;
        int64_t equal_before;  // in its own head
        size_t head;
    };
    std::vector<Entry> entries;
    for (size_t head = 0; head < pooled.size(); ++head) {
        std::map<float, int64_t> seen;
        for (const float score : pooled[head]) entries.push_back({score, seen[score]++, head});
    }
    std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
        return std::tuple(-a.score, a.equal_before, a.head) < std::tuple(-b.score, b.equal_before, b.head);
    });
    std::vector<int64_t> counts(pooled.size());
    for (size_t i = 0; i < static_cast<size_t>(total); ++i) ++counts[entries[i].head];
    return counts;
}

/// 0.8 of each count and 0.2 of the mean, by largest remainder, the lower head first.
std::vector<int64_t> naive_smoothed(const std::vector<int64_t>& counts, int64_t per_head) {
    std::vector<std::pair<double, size_t>> by_remainder;
    std::vector<int64_t> smoothed;
    int64_t left = per_head * static_cast<int64_t>(counts.size());
    for (size_t head = 0; head < counts.size(); ++head) {
        const double share = static_cast<double>(4 * counts[head] + per_head) / 5.0;
        smoothed.push_back(static_cast<int64_t>(std::floor(share + 1e-9)));
        left -= smoothed.back();
        by_remainder.emplace_back(-std::round((share - static_cast<double>(smoothed.back())) * 5.0), head);
    }
    std::ranges::sort(by_remainder);
    for (size_t i = 0; i < static_cast<size_t>(left); ++i) ++smoothed[by_remainder[i].second];
    return smoothed;
}

TEST(AdaKv, SharesTheLayersBudgetByTheBestOfAllHeads) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        const ScoreRows rows = random_rows(random, 300);
        if (rows.keys < 2) continue;
        const int budget = 1 + static_cast<int>(random() % static_cast<unsigned>(rows.keys - 1));
        const auto settings = random_settings(random, Method::adakv, budget);
        const int64_t window = std::max(1, std::min(settings.window, budget / 4));
        std::vector<std::vector<float>> pooled;
        for (int head = 0; head < rows.kv_heads; ++head)
            pooled.push_back(naive_pool(rows.between(head, 0, rows.keys - window), settings.pool));
        const auto counts = naive_smoothed(naive_counts(pooled, rows.kv_heads * (budget - window)), budget - window);
        const auto chosen = chosen_by(settings, rows);
        for (size_t head = 0; head < chosen.size(); ++head) {
            auto expected = naive_top(pooled[head], counts[head]);
            const auto last = key_range(rows.keys - window, rows.keys);
            expected.insert(expected.end(), last.begin(), last.end());
            ASSERT_EQ(chosen[head], expected) << "round " << round << ", head " << head;
        }
    }
}

/// Two heads of 200 keys: the first one's attention is on all of them, the second one's on a single key.
ScoreRows wide_and_narrow() {
    ScoreRows rows{.kv_heads = 2, .keys = 200, .weights = std::vector<float>(400, 1e-6F)};
    std::fill_n(rows.weights.begin(), 200, 0.05F);
    rows.weights[250] = 9.0F;
    return rows;
}

TEST(AdaKv, GivesTheHeadWithMoreOfTheBestMoreOfTheBudget) {
    const auto chosen =
        chosen_by({.method = Method::adakv, .budget_tokens = 50, .pool = 1, .window = 10}, wide_and_narrow());
    // Of the best 80 the narrow head has one: 0.8·79 + 0.2·40 = 71.2 and 0.8·1 + 0.2·40 = 8.8, and the window.
    EXPECT_EQ(chosen[0].size(), 71U + 10U);
    EXPECT_EQ(chosen[1].size(), 9U + 10U);
    EXPECT_TRUE(std::ranges::binary_search(chosen[1], 50)) << "the one key it looks at";
}

TEST(AdaKv, EqualScoresShareEqually) {
    for (const float score : {0.0F, 0.25F}) {
        const ScoreRows rows{.kv_heads = 3, .keys = 100, .weights = std::vector<float>(300, score)};
        auto expected = key_range(0, 31);
        const auto window = key_range(92, 100);
        expected.insert(expected.end(), window.begin(), window.end());
        EXPECT_THAT(chosen_by({.method = Method::adakv, .budget_tokens = 39, .window = 8}, rows), Each(expected));
    }
}

TEST(AdaKv, NoHeadGoesWithoutAFifthOfItsShare) {
    std::mt19937 random(2);
    for (int round = 0; round < 100; ++round) {
        ScoreRows rows{.kv_heads = 4, .keys = 300};
        for (int head = 0; head < 4; ++head) {
            auto row = testing::make_scores(ScoreKind::peaked, 300, random);
            for (float& score : row) score *= head == 0 ? 1.0F : 1e-9F;
            rows.weights.insert(rows.weights.end(), row.begin(), row.end());
        }
        const int budget = 8 + static_cast<int>(random() % 60);
        const auto chosen = chosen_by({.method = Method::adakv, .budget_tokens = budget, .window = 2}, rows);
        for (const auto& keys : chosen) ASSERT_GE(static_cast<int>(keys.size()), 2 + (budget - 2) / 5);
        ASSERT_GT(chosen[0].size(), chosen[1].size());
    }
}

TEST(RandomKeys, DependOnTheSeedAndTheHead) {
    const ScoreRows rows{.kv_heads = 2, .keys = 500};
    const DecodeAttention settings{.method = Method::random, .budget_tokens = 50};
    const auto chosen = chosen_by(settings, rows, 7);
    EXPECT_EQ(chosen_by(settings, rows, 7), chosen);
    EXPECT_NE(chosen_by(settings, rows, 8), chosen);
    EXPECT_NE(chosen[0], chosen[1]);
}

/// Both bounds are 5.5 standard deviations of the counts.
TEST(RandomKeys, ChoosesEveryKeyAndEveryPairAsOften) {
    constexpr int draws = 4000;
    const ScoreRows rows{.kv_heads = 1, .keys = 20};
    std::vector<int> keys(20), pairs(20);
    for (uint64_t seed = 0; seed < draws; ++seed) {
        const auto chosen = chosen_by({.method = Method::random, .budget_tokens = 5}, rows, seed);
        for (const int32_t key : chosen[0]) {
            ++keys[static_cast<size_t>(key)];
            if (std::ranges::binary_search(chosen[0], key + 1)) ++pairs[static_cast<size_t>(key)];
        }
    }
    for (size_t key = 0; key < 20; ++key) EXPECT_NEAR(keys[key], draws / 4, 150) << "key " << key;
    for (size_t key = 0; key < 19; ++key) EXPECT_NEAR(pairs[key], draws / 19, 78) << "keys " << key << ", " << key + 1;
}

TEST(Recent, KeepsTheLastKeys) {
    EXPECT_THAT(chosen_by({.method = Method::recent, .budget_tokens = 3, .sinks = 4}, {.kv_heads = 2, .keys = 10}),
                Each(ElementsAre(7, 8, 9)));
}

Chosen oracle(int budget, std::vector<std::pair<int32_t, int32_t>> gold, int64_t keys) {
    const auto selection = make_oracle_selection({.method = Method::oracle, .budget_tokens = budget}, std::move(gold));
    return chosen_by(*selection, {.kv_heads = 2, .keys = keys});
}

TEST(Oracle, KeepsGoldAndTheMostRecentKeys) {
    EXPECT_THAT(oracle(6, {{12, 14}, {3, 5}}, 20), Each(ElementsAre(3, 4, 12, 13, 18, 19)));
    EXPECT_THAT(oracle(5, {{16, 19}}, 20), Each(ElementsAre(15, 16, 17, 18, 19))) << "gold among the recent ones";
}

TEST(Oracle, CountsOverlappingGoldOnceAndLeavesOutWhatIsNotThere) {
    EXPECT_THAT(oracle(5, {{2, 5}, {3, 6}}, 20), Each(ElementsAre(2, 3, 4, 5, 19)));
    EXPECT_THAT(oracle(4, {{-3, 1}, {18, 90}, {40, 50}, {9, 9}, {7, 2}}, 20), Each(ElementsAre(0, 17, 18, 19)));
}

TEST(Oracle, GoldBeyondTheBudgetIsLeftOutInTheOrderGiven) {
    EXPECT_THAT(oracle(3, {{10, 12}, {4, 8}}, 20), Each(ElementsAre(4, 10, 11)));
}

TEST(Oracle, WithoutGoldItIsTheMostRecentKeys) {
    const ScoreRows rows{.kv_heads = 1, .keys = 9};
    EXPECT_THAT(chosen_by({.method = Method::oracle, .budget_tokens = 4}, rows), Each(key_range(5, 9)));
}

}  // namespace
}  // namespace rondo
