#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/measure/attention/layer_pairs.hpp"
#include "cli/measure/attention/measure_dialogue.hpp"
#include "cli/measure/attention/top_lines.hpp"

namespace rondo::cli::attention {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LayerDistances, AreOneRootOfAllRowsAHeadAndMeansOfHeads) {
    LayerDistances distances(3, 2);
    distances.add(0, std::vector<float>{0, 0, /**/ 3, 0, /**/ 0, 1});
    distances.add(0, std::vector<float>{1, /**/ 5, /**/ 1});  // a further row of one key
    distances.add(1, std::vector<float>{0, /**/ 1, /**/ 0});
    const auto means = distances.means();
    ASSERT_EQ(means.size(), 9U);
    EXPECT_DOUBLE_EQ(means[1], (5.0 + 1.0) / 2.0);
    EXPECT_DOUBLE_EQ(means[2], (1.0 + 0.0) / 2.0);
    EXPECT_DOUBLE_EQ(means[5], (std::sqrt(9.0 + 1.0 + 16.0) + 1.0) / 2.0);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_DOUBLE_EQ(means[i * 3 + i], 0.0);
        for (size_t j = 0; j < 3; ++j) EXPECT_DOUBLE_EQ(means[i * 3 + j], means[j * 3 + i]);
    }
}

/// [layers, layers] of what is said, 9 elsewhere.
std::vector<double> distances_of(size_t layers, const std::vector<std::pair<LayerPair, double>>& said) {
    std::vector<double> all(layers * layers, 9.0);
    for (const auto& [pair, distance] : said) {
        const auto lower = static_cast<size_t>(pair.lower), upper = static_cast<size_t>(pair.upper);
        all[lower * layers + upper] = all[upper * layers + lower] = distance;
    }
    return all;
}

TEST(PairChoiceOf, TakesTheClosestDisjointPairsOfLayersThatAreInitialRecent) {
    const std::vector<double> scores = {0.9, 0.4, 0.5, 0.9, 0.9, 0.9};
    const auto distances = distances_of(6, {{{0, 1}, 0.1}, {{2, 5}, 0.2}, {{2, 3}, 0.3}, {{0, 4}, 0.4}, {{0, 3}, 0.5}});
    EXPECT_THAT(choose_pairs(scores, distances, 0.5, 1.0), ElementsAre(LayerPair{0, 4}, LayerPair{2, 5}));
    EXPECT_THAT(choose_pairs(scores, distances, 0.5, 0.5), ElementsAre(LayerPair{0, 4}, LayerPair{2, 5}))
        << "3 of 6 layers are wanted, a pair holds 2";
    EXPECT_THAT(choose_pairs(scores, distances, 0.5, 0.3), ElementsAre(LayerPair{2, 5}));
    EXPECT_THAT(choose_pairs(scores, distances, 0.5, 0.0), IsEmpty());
    EXPECT_THAT(choose_pairs(scores, distances, 0.95, 1.0), IsEmpty());
    EXPECT_THAT(choose_pairs(scores, distances, 0.0, 0.3), ElementsAre(LayerPair{0, 1}));
}

TEST(Strategies, AreCountedAndComparedByPairsOfConversations) {
    const Strategy a = {{0, 1}}, b = {{0, 1}, {2, 3}};
    const auto uses = count_strategies(std::vector<Strategy>{b, a, b, b});
    ASSERT_EQ(uses.size(), 2U);
    EXPECT_EQ(uses[0].pairs, b);
    EXPECT_EQ(uses[0].conversations, 3);
    EXPECT_DOUBLE_EQ(share_that_differs(uses), 0.5) << "three of six pairs of conversations";
    EXPECT_DOUBLE_EQ(share_that_differs(count_strategies(std::vector<Strategy>{a})), 0.0);
    EXPECT_DOUBLE_EQ(share_that_differs({}), 0.0);
}

/// The last rows of a sequence, in one block.
TopLines lines_of(int64_t keys, const std::vector<std::vector<float>>& rows) {
    std::vector<int32_t> block_begin = {0, static_cast<int32_t>(keys)}, numbers;
    std::vector<float> weights;
    for (const auto& row : rows) {
        numbers.push_back(static_cast<int32_t>(numbers.size()));
        weights.insert(weights.end(), row.begin(), row.end());
        weights.resize(numbers.size() * static_cast<size_t>(keys));
    }
    const int64_t count = std::ssize(rows);
    return top_lines({.first_row = keys - count, .rows = count, .block_begin = block_begin},
                     {.rows = numbers, .weights = weights});
}

TEST(TopLinesOf, CountColumnsAndDiagonalsAndWhatTheyShareOnce) {
    // Two of twenty lines: column 0 and the rows' own keys. The first row's own key is column 0.
    const TopLines lines = lines_of(10, {{0.6F, 0, 0, 0, 0, 0, 0, 0, 0.4F}, {0.5F, 0.1F, 0, 0, 0, 0, 0, 0, 0, 0.4F}});
    EXPECT_THAT(lines.columns, ElementsAre(0));
    EXPECT_THAT(lines.diagonals, ElementsAre(0));
    EXPECT_NEAR(lines.share, 1.9 / 2.0, 1e-6);
    const TopLines whole = lines_of(2, {{1.0F, 0}, {0.5F, 0.5F}});  // one line of four
    EXPECT_THAT(whole.columns, ElementsAre(0));
    EXPECT_THAT(whole.diagonals, IsEmpty());
    EXPECT_NEAR(whole.share, 1.5 / 2.0, 1e-6);
    EXPECT_NEAR(lines_of(1, {{1.0F}}).share, 1.0, 1e-6);
}

TEST(TopLinesOf, HoldNothingWhereWeightsAreNoNumbers) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const TopLines lines = lines_of(40, std::vector<std::vector<float>>(20, std::vector<float>(21, nan)));
    EXPECT_EQ(lines.share, 0.0);
    EXPECT_THAT(lines.columns, IsEmpty());
}

TEST(Overlap, IsOfLinesThatTheEarlierTurnHadToo) {
    const TopLines before{.columns = {0, 3}, .diagonals = {0}, .keys = 5};
    EXPECT_DOUBLE_EQ(overlap(before, {.columns = {0, 7}, .diagonals = {0, 1, 6}, .keys = 9}).value(), 2.0 / 4.0);
    EXPECT_DOUBLE_EQ(overlap(before, {.columns = {3, 4}, .diagonals = {}, .keys = 9}).value(), 1.0 / 4.0);
    EXPECT_DOUBLE_EQ(overlap(before, before).value(), 1.0);
    EXPECT_FALSE(
        overlap({.columns = {}, .diagonals = {}, .keys = 5}, {.columns = {8}, .diagonals = {}, .keys = 9}).has_value());
}

TEST(ChunkPlanOf, KeepsRowsWithinItsBytesWhateverTheModel) {
    constexpr size_t bytes = size_t{256} << 20;
    const ChunkPlan demo = plan_chunks(10, 8, 600, bytes);
    EXPECT_EQ(demo.chunk_tokens, 256);
    EXPECT_EQ(demo.key_pool, 1);
    for (const auto& [layers, heads, tokens] :
         {std::array<int, 3>{28, 28, 8192}, {80, 64, 32768}, {80, 64, 131072}, {1024, 1024, 1 << 20}}) {
        const ChunkPlan plan = plan_chunks(layers, heads, tokens, bytes);
        EXPECT_GE(plan.chunk_tokens, 16);
        EXPECT_EQ(plan.chunk_tokens % 16, 0);
        const int64_t row = int64_t{4} * layers * heads * (tokens / plan.key_pool);
        EXPECT_LE(row, std::max<int64_t>(bytes, int64_t{4} * layers * heads)) << layers;
    }
    EXPECT_GT(plan_chunks(80, 64, 131072, bytes).key_pool, 1);
}

}  // namespace
}  // namespace rondo::cli::attention
