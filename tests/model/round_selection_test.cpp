#include "model/attention/policies/round_selection/round_selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "config/method_rows.hpp"
#include "tests/model/methods_where.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using RoundMasses = std::vector<double>;

std::vector<int32_t> rounds_that_stay(RoundSettings settings, const RoundMasses& masses) {
    return make_round_selection(settings)->choose(masses);
}

TEST(RoundSelection, NoneChoosesNothing) {
    EXPECT_EQ(make_round_selection({}), nullptr);
}

TEST(RoundSelection, OfNoRoundsNothingIsChosen) {
    for (const RoundSettings::Method method :
         testing::methods_where<RoundSettings::Method>(round_method_rows, testing::any_method))
        EXPECT_THAT(rounds_that_stay({.method = method}, {}), IsEmpty());
}

TEST(RoundSelection, EveryMethodKeepsARoundAndNamesThemInOrder) {
    for (const RoundSettings::Method method :
         testing::methods_where<RoundSettings::Method>(round_method_rows, testing::any_method)) {
        for (const RoundMasses& masses :
             {RoundMasses{1.0}, RoundMasses{0.0, 0.0}, RoundMasses(40, 0.025), RoundMasses{0.1, 0.7, 0.1, 0.1}}) {
            const std::vector<int32_t> rounds = rounds_that_stay({.method = method}, masses);
            ASSERT_FALSE(rounds.empty());
            EXPECT_TRUE(std::ranges::is_sorted(rounds, std::ranges::less_equal())) << "none twice";
            EXPECT_GE(rounds.front(), 0);
            EXPECT_LT(rounds.back(), std::ssize(masses));
        }
    }
}

TEST(RoundSelection, TopRoundsAreAShareOfThemRoundedUp) {
    const auto top = [](double share, const RoundMasses& masses) {
        return rounds_that_stay({.method = RoundSettings::Method::top_rounds, .share = share}, masses);
    };
    EXPECT_THAT(top(0.5, {0.1, 0.4, 0.2, 0.3}), ElementsAre(1, 3));
    EXPECT_THAT(top(0.51, {0.1, 0.4, 0.2, 0.3}), ElementsAre(1, 2, 3));
    EXPECT_THAT(top(0.01, {0.1, 0.4, 0.2, 0.3}), ElementsAre(1));
    EXPECT_THAT(top(1.0, {0.1, 0.4, 0.2, 0.3}), ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(top(0.1, RoundMasses(10, 0.1)).size(), 1U) << "a tenth of ten is one, whatever its bits";
    EXPECT_EQ(top(0.3, RoundMasses(10, 0.1)).size(), 3U);
    EXPECT_EQ(top(0.1, RoundMasses(11, 0.1)).size(), 2U);
}

TEST(RoundSelection, OfEqualRoundsTheLatestStay) {
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::top_rounds, .share = 0.5}, RoundMasses(4, 0.25)),
                ElementsAre(2, 3));
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::fixed_rounds, .mass_min = 0.9}, {0.4, 0.4, 0.2}),
                ElementsAre(1));
}

TEST(RoundSelection, FixedRoundsDrawMoreThanTheirShare) {
    const RoundMasses masses{0.05, 0.3, 0.1, 0.55};
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::fixed_rounds}, masses), ElementsAre(1, 3))
        << "more, not as much";
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::fixed_rounds, .mass_min = 0.01}, masses),
                ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::fixed_rounds, .mass_min = 0.6}, masses),
                ElementsAre(3));
}

TEST(RoundSelection, AdaptiveRoundsStandOutOfAll) {
    RoundMasses masses(30, 0.01);
    masses[4] = 0.4;
    masses[20] = 0.31;
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::adaptive_rounds}, masses), ElementsAre(4, 20));
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::adaptive_rounds, .deviations = 4}, masses),
                ElementsAre(4));
    EXPECT_THAT(rounds_that_stay({.method = RoundSettings::Method::adaptive_rounds}, RoundMasses(30, 1.0 / 30)),
                ElementsAre(29))
        << "where none stands out, the greatest";
}

TEST(RoundSelection, RecentRoundsAreTheLast) {
    EXPECT_THAT(
        rounds_that_stay({.method = RoundSettings::Method::recent_rounds, .share = 0.5}, {0.9, 0.05, 0.03, 0.02}),
        ElementsAre(2, 3));
}

}  // namespace
}  // namespace rondo
