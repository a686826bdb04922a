#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/measure/attention/round_figures.hpp"
#include "cli/measure/attention/summary.hpp"

namespace rondo::cli::attention {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TopRounds, AreATenthAndNeverNone) {
    EXPECT_EQ(tenth_of(0), 0U);
    EXPECT_EQ(tenth_of(1), 1U);
    EXPECT_EQ(tenth_of(9), 1U);
    EXPECT_EQ(tenth_of(10), 1U);
    EXPECT_EQ(tenth_of(11), 2U);
    EXPECT_EQ(tenth_of(31), 4U);
}

TEST(TopRounds, AreThoseWithTheGreatestMassesTheEarlierOfEqualOnes) {
    const Masses masses = {1, 3, 2, 3, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_THAT(top_rounds(masses), ElementsAre(1, 3));
    EXPECT_DOUBLE_EQ(top_share(masses), 6.0 / 9.0);
    EXPECT_DOUBLE_EQ(evidence_found(masses, std::vector<size_t>{2, 3}), 0.5);
    EXPECT_DOUBLE_EQ(evidence_found(masses, std::vector<size_t>{}), 0.0);
    EXPECT_DOUBLE_EQ(top_share(Masses{0.0, 0.0}), 0.0);
    EXPECT_THAT(top_rounds(Masses{}), IsEmpty());
}

TEST(Divergence, IsOfEqualDistributionsNothing) {
    EXPECT_DOUBLE_EQ(divergence(Masses{0.5, 0.5}, Masses{0.5, 0.5}), 0.0);
    EXPECT_NEAR(divergence(Masses{0.5, 0.5}, Masses{0.25, 0.75}), 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3.0),
                1e-5);
    EXPECT_NEAR(divergence(Masses{1.0, 0.0}, Masses{0.0, 1.0}), std::log(1e6), 1e-3) << "finite where one is 0";
}

TEST(Divergence, OfALayerIsTheMeanToAllLaterOnes) {
    const Masses a = {3.0, 1.0}, b = {0.5, 0.5}, c = {0.1, 0.1};
    const double once = divergence(Masses{0.75, 0.25}, Masses{0.5, 0.5});
    EXPECT_THAT(divergences(std::vector<Masses>{a, b, c}), ElementsAre(DoubleEq(once), DoubleEq(0.0)));
    EXPECT_THAT(divergences(std::vector<Masses>{a, b, a}), ElementsAre(DoubleEq(once / 2.0), ::testing::Gt(0.0)));
    EXPECT_THAT(divergences(std::vector<Masses>{a}), IsEmpty());
    EXPECT_THAT(divergences(std::vector<Masses>{a, {0.0, 0.0}}), IsEmpty()) << "a layer that looks at no past round";
}

TEST(RankCorrelation, IsOfRanksAlone) {
    EXPECT_DOUBLE_EQ(rank_correlation(Masses{1, 2, 30}, Masses{5, 6, 7}).value(), 1.0);
    EXPECT_DOUBLE_EQ(rank_correlation(Masses{1, 2, 30}, Masses{7, 6, 5}).value(), -1.0);
    EXPECT_DOUBLE_EQ(rank_correlation(Masses{1, 2, 3, 4}, Masses{1, 2, 4, 3}).value(), 0.8);
    EXPECT_NEAR(rank_correlation(Masses{1, 1, 2}, Masses{1, 2, 3}).value(), std::sqrt(0.75), 1e-12) << "ties share";
    EXPECT_FALSE(rank_correlation(Masses{1}, Masses{1}).has_value());
    EXPECT_FALSE(rank_correlation(Masses{1, 1}, Masses{1, 2}).has_value());
}

void expect_watershed(const Masses& divergences, int layer, bool is_minimum) {
    const auto found = find_watershed(divergences);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->layer, layer);
    EXPECT_EQ(found->is_minimum, is_minimum);
}

TEST(Watershed, IsTheFirstLocalMinimumNearTheLeast) {
    expect_watershed({0.9, 0.8, 0.3, 0.35, 0.3, 0.2, 0.25, 0.3, 0.3}, 3, true);
    expect_watershed({0.9, 0.7, 0.8, 0.2, 0.25, 0.3, 0.3}, 4, true);  // layer 2 lies too high
    expect_watershed({0.9, 0.3, 0.3, 0.5, 0.5}, 2, true);             // of a level stretch the first
}

TEST(Watershed, IsNoneOfTheLastTwoLayers) {
    expect_watershed({0.9, 0.8, 0.7, 0.6, 0.1}, 3, false);  // D of six layers: 5 and 6 are no candidates
    expect_watershed({0.9, 0.8, 0.7, 0.05, 0.1}, 4, true);  // layer 4 is the last candidate
    expect_watershed({0.9, 0.2, 0.21, 0.05, 0.0}, 2, true);
}

TEST(Watershed, FallsBackToTheLeastOfTheFirstHalf) {
    // It rises from the first layer on, and falls up to the last candidate.
    expect_watershed({0.29, 0.30, 0.33, 0.37, 0.49, 0.24, 0.23}, 1, false);
    expect_watershed({0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01}, 4, false);
    expect_watershed({0.5}, 1, false);
    expect_watershed({0.5, 0.4}, 1, false);
    EXPECT_FALSE(find_watershed({}).has_value());
}

TEST(Spread, IsOfTheDialoguesThatHaveAValue) {
    EXPECT_FALSE(spread_of({}).is_known());
    EXPECT_DOUBLE_EQ(spread_of({2.0}).deviation, 0.0);
    const Spread spread = spread_of({1.0, 2.0, 3.0});
    EXPECT_DOUBLE_EQ(spread.mean, 2.0);
    EXPECT_DOUBLE_EQ(spread.deviation, 1.0);
    EXPECT_EQ(spread.dialogues, 3);
}

}  // namespace
}  // namespace rondo::cli::attention
