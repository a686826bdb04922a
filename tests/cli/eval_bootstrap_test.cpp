#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "cli/measure/eval/bootstrap.hpp"
#include "cli/measure/eval/python_random.hpp"

namespace rondo::cli::eval {
namespace {

constexpr uint64_t seed = 1;

/// One answer a dialogue, right in the first `right` of them.
std::vector<Observation> answers(size_t count, size_t right) {
    std::vector<Observation> out;
    for (size_t i = 0; i < count; ++i) out.push_back({i, 0, i < right ? 1.0 : 0.0});
    return out;
}

TEST(Bootstrap, EqualFiguresLeaveNoDoubt) {
    std::vector<Observation> equal(30, {0, 0, 0.25});
    for (size_t i = 0; i < equal.size(); ++i) equal[i].dialogue = i;
    const Interval interval = mean_interval(equal, seed);
    EXPECT_DOUBLE_EQ(interval.low, 0.25);
    EXPECT_DOUBLE_EQ(interval.high, 0.25);
}

TEST(Bootstrap, TwoDialoguesLeaveAllOpen) {
    // Half the resamples hold both dialogues, a quarter only the one, a quarter only the other.
    const Interval interval = mean_interval(answers(2, 1), seed);
    EXPECT_DOUBLE_EQ(interval.low, 0.0);
    EXPECT_DOUBLE_EQ(interval.high, 1.0);
}

TEST(Bootstrap, AgreesWithTheNormalIntervalOfManyAnswers) {
    // 400 answers, half of them right: ±1.96 × √(.25 / 400) = ±.049.
    const Interval interval = mean_interval(answers(400, 200), seed);
    EXPECT_NEAR(interval.low, 0.451, 0.006);
    EXPECT_NEAR(interval.high, 0.549, 0.006);
}

TEST(Bootstrap, DrawsWholeDialogues) {
    std::vector<Observation> one_each = answers(20, 10), ten_each;
    for (const Observation& each : one_each) {
        for (size_t round = 0; round < 10; ++round) ten_each.push_back({each.dialogue, round, each.value});
    }
    const Interval one = mean_interval(one_each, seed), ten = mean_interval(ten_each, seed);
    EXPECT_DOUBLE_EQ(one.low, ten.low);
    EXPECT_DOUBLE_EQ(one.high, ten.high);
    for (Observation& each : ten_each) each.variant = std::exchange(each.round, 0);
    const Interval variants = mean_interval(ten_each, seed);
    EXPECT_DOUBLE_EQ(variants.low, ten.low);
    EXPECT_DOUBLE_EQ(variants.high, ten.high);
    for (size_t i = 0; i < ten_each.size(); ++i) ten_each[i].dialogue = i;
    const Interval independent = mean_interval(ten_each, seed);
    EXPECT_LT(independent.high - independent.low, 0.5 * (ten.high - ten.low));
}

TEST(Bootstrap, WeighsADialogueByItsAnswers) {
    const std::vector<Observation> uneven = {{1, 0, 1.0}, {1, 1, 1.0}, {1, 2, 1.0}, {2, 0, 0.0}};
    EXPECT_DOUBLE_EQ(mean(uneven), 0.75);
    const std::vector<Observation> many_and_few = {{1, 0, 1.0}, {1, 1, 0.0}, {2, 0, 1.0}};
    const Interval interval = mean_interval(many_and_few, seed);  // means 1/2, 2/3 and 1
    EXPECT_DOUBLE_EQ(interval.low, 0.5);
    EXPECT_DOUBLE_EQ(interval.high, 1.0);
}

TEST(Bootstrap, DependsOnTheSeedAndNotOnTheOrder) {
    std::vector<Observation> values;
    for (size_t i = 0; i < 50; ++i) values.push_back({i, 0, static_cast<double>(i * i % 17)});
    const Interval first = mean_interval(values, seed), other = mean_interval(values, seed + 1);
    std::ranges::reverse(values);
    const Interval reversed = mean_interval(values, seed);
    EXPECT_EQ(first.low, reversed.low);
    EXPECT_EQ(first.high, reversed.high);
    EXPECT_TRUE(first.low != other.low || first.high != other.high);
}

TEST(Bootstrap, NothingHasNoMean) {
    EXPECT_EQ(mean({}), 0.0);
    EXPECT_EQ(mean_interval({}, seed).low, 0.0);
    EXPECT_EQ(mean_interval({}, seed).high, 0.0);
}

TEST(Bootstrap, HoldsTheTruthAsOftenAsItSays) {
    // The true rate is .7; 200 samples of 40 answers. 95% of the intervals should hold it: the percentile bootstrap of
    // so few answers comes to about 93%, and five standard deviations of 200 trials are 9 points.
    PythonRandom random(3);
    int held = 0;
    for (int sample = 0; sample < 200; ++sample) {
        std::vector<Observation> drawn;
        for (size_t i = 0; i < 40; ++i) drawn.push_back({i, 0, random.random() < 0.7 ? 1.0 : 0.0});
        const Interval interval = mean_interval(drawn, seed);
        held += interval.low <= 0.7 && 0.7 <= interval.high;
    }
    EXPECT_GE(held, 2 * 84);
    EXPECT_LE(held, 199);
}

TEST(PairedDifference, IsOfTheAnswersThatBothGave) {
    const std::vector<Observation> a = {{1, 0, 1.0}, {1, 1, 0.0}, {2, 0, 1.0}, {3, 0, 1.0}};
    const std::vector<Observation> b = {{3, 1, 1.0}, {2, 0, 0.0}, {1, 1, 1.0}, {1, 0, 1.0}};
    const std::vector<Observation> paired = differences(a, b);
    ASSERT_EQ(paired.size(), 3U);
    EXPECT_EQ(paired[0].value, 0.0);
    EXPECT_EQ(paired[1].value, -1.0);
    EXPECT_EQ(paired[1].round, 1U);
    EXPECT_EQ(paired[2].value, 1.0);
    EXPECT_EQ(paired[2].dialogue, 2U);
}

TEST(PairedDifference, TellsVariantsOfADialogueApart) {
    const std::vector<Observation> wrong_then_right = {{7, 4, 0.0, 0}, {7, 4, 1.0, 2}}, other = {{7, 4, 1.0, 1}};
    const std::vector<Observation> paired = differences(wrong_then_right, wrong_then_right);
    ASSERT_EQ(paired.size(), 2U);
    for (const Observation& each : paired) EXPECT_EQ(each.value, 0.0) << each.variant;
    EXPECT_EQ(paired[1].variant, 2U);
    EXPECT_THAT(differences(wrong_then_right, other), ::testing::IsEmpty());
}

TEST(PairedDifference, CancelsWhatMakesADialogueHard) {
    // Both methods fail in the same half of the dialogues, one of them in two more.
    const std::vector<Observation> better = answers(60, 32), worse = answers(60, 30);
    const Interval paired = mean_interval(differences(better, worse), seed), alone = mean_interval(better, seed);
    EXPECT_LT(paired.high - paired.low, 0.5 * (alone.high - alone.low));
    EXPECT_NEAR(mean(differences(better, worse)), 2.0 / 60.0, 1e-12);
}

}  // namespace
}  // namespace rondo::cli::eval
