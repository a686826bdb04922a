// When whoever is refused may ask again, told by how often turns have ended.

#include "actors/turn_pace.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace rondo {
namespace {

constexpr double no_limit_s = 1e6;

/// Turns have ended at these times.
TurnPace pace_of(std::initializer_list<double> ends) {
    TurnPace pace;
    for (const double end : ends) pace.ended(end);
    return pace;
}

TEST(TurnPace, BeforeAnyEndASecondIsTheBestGuess) {
    const TurnPace pace;
    EXPECT_EQ(pace.expected_s(50.0, 1.0, no_limit_s), 1.0);
    EXPECT_EQ(pace.expected_s(5000.0, 100.0, no_limit_s), 1.0);
}

TEST(TurnPace, AfterTheFirstEndTheTimeSinceThenIsTheBestGuess) {
    const TurnPace pace = pace_of({4.0});
    EXPECT_EQ(pace.expected_s(4.0, 1.0, no_limit_s), 1.0);
    EXPECT_EQ(pace.expected_s(10.0, 1.0, no_limit_s), 6.0);
    EXPECT_EQ(pace.expected_s(10.0, 2.0, no_limit_s), 12.0);
}

TEST(TurnPace, EachTurnThatIsWaitedForTakesAGap) {
    const TurnPace pace = pace_of({10.0, 14.0});
    EXPECT_EQ(pace.expected_s(14.0, 1.0, no_limit_s), 4.0);
    EXPECT_EQ(pace.expected_s(14.0, 1.5, no_limit_s), 6.0);
    EXPECT_EQ(pace.expected_s(14.0, 3.0, no_limit_s), 12.0);
}

TEST(TurnPace, ALaterGapCountsForAnEighth) {
    EXPECT_EQ(pace_of({10.0, 14.0, 26.0}).expected_s(26.0, 1.0, no_limit_s), 5.0) << "4 and an eighth of 8 more";
    EXPECT_EQ(pace_of({10.0, 18.0, 18.0}).expected_s(18.0, 1.0, no_limit_s), 7.0) << "two ended at once";
}

TEST(TurnPace, AnotherPaceIsLearnt) {
    TurnPace pace;
    double now = 10.0;
    for (int i = 0; i < 50; ++i) pace.ended(now += 1.0);
    EXPECT_EQ(pace.expected_s(now, 10.0, no_limit_s), 10.0);
    for (int i = 0; i < 200; ++i) pace.ended(now += 5.0);
    EXPECT_NEAR(pace.expected_s(now, 10.0, no_limit_s), 50.0, 1.0);
}

/// The first two ended together, which tells nothing of the next.
TEST(TurnPace, AGapOfNothingIsNoPace) {
    EXPECT_EQ(pace_of({10.0, 10.0}).expected_s(10.0, 50.0, no_limit_s), 1.0);
    EXPECT_EQ(pace_of({10.0, 10.0, 16.0}).expected_s(16.0, 1.0, no_limit_s), 6.0) << "the first real gap counts whole";
}

TEST(TurnPace, ASilenceIsAGapOnceItIsTheLonger) {
    TurnPace pace = pace_of({10.0, 12.0});
    EXPECT_EQ(pace.expected_s(13.0, 1.0, no_limit_s), 2.0);
    EXPECT_EQ(pace.expected_s(14.0, 1.0, no_limit_s), 2.0);
    EXPECT_EQ(pace.expected_s(20.0, 1.0, no_limit_s), 8.0);
    EXPECT_EQ(pace.expected_s(20.0, 3.0, no_limit_s), 24.0);
    pace.ended(20.0);
    EXPECT_EQ(pace.expected_s(20.0, 4.0, no_limit_s), 11.0) << "what ends it counts as any gap: 2 and 6/8";
}

TEST(TurnPace, SecondsAreWholeAndAtLeastOne) {
    EXPECT_EQ(pace_of({10.0, 12.5}).expected_s(12.5, 1.0, no_limit_s), 3.0);
    EXPECT_EQ(pace_of({10.0, 12.5}).expected_s(12.5, 2.0, no_limit_s), 5.0);
    EXPECT_EQ(pace_of({10.0, 10.125}).expected_s(10.125, 1.0, no_limit_s), 1.0);
    EXPECT_EQ(pace_of({10.0, 12.5}).expected_s(12.5, 0.0, no_limit_s), 1.0) << "no turn is waited for";
}

TEST(TurnPace, NobodyIsToldToWaitLongerThanTurnsMayTake) {
    const TurnPace pace = pace_of({10.0, 110.0});
    EXPECT_EQ(pace.expected_s(110.0, 1.0, 600.0), 100.0);
    EXPECT_EQ(pace.expected_s(110.0, 1.0, 100.0), 100.0);
    EXPECT_EQ(pace.expected_s(110.0, 1.0, 30.0), 30.0);
    EXPECT_EQ(pace.expected_s(110.0, 1.0, 7.25), 8.0) << "a whole second too";
    EXPECT_EQ(pace.expected_s(110.0, 1.0, 0.25), 1.0);
    EXPECT_EQ(pace.expected_s(110.0, 1.0, 0.0), 1.0);
    EXPECT_EQ(pace.expected_s(110.0, 1.0, -5.0), 1.0) << "they should have ended already";
}

}  // namespace
}  // namespace rondo
