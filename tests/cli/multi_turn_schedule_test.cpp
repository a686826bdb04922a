#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/measure/multi_turn/schedule.hpp"

namespace rondo::cli::multi_turn {
namespace {

using ::testing::ElementsAre;
using Kind = Schedule::Step::Kind;

Workload shape(int64_t conversations, int64_t active) {
    Workload workload;
    workload.conversations = conversations;
    workload.active = active;
    return workload;
}

TEST(Schedule, TurnsGoAroundAmongTheActiveConversations) {
    Schedule schedule(shape(5, 3), 1);
    std::vector<size_t> order;
    for (int i = 0; i < 6; ++i) {
        const auto step = schedule.next(i);
        ASSERT_EQ(step.kind, Kind::take);
        order.push_back(step.conversation);
        schedule.done(step.conversation, i + 0.5, true);
    }
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Schedule, EachDocumentIsReadBeforeOneIsAskedAboutAgain) {
    Schedule schedule(find_workload("documents").value(), 1);
    for (size_t i = 0; i < 100; ++i) {
        const auto step = schedule.next(static_cast<double>(i));
        ASSERT_EQ(step.kind, Kind::take);
        EXPECT_EQ(step.conversation, i % 50);
        schedule.done(step.conversation, static_cast<double>(i) + 0.5, i < 50);
    }
}

TEST(Schedule, AnotherConversationBeginsWhenOneIsOver) {
    Schedule schedule(shape(3, 2), 1);
    EXPECT_EQ(schedule.next(0.0).conversation, 0u);
    EXPECT_EQ(schedule.next(0.0).conversation, 1u);
    const auto full = schedule.next(0.0);
    EXPECT_EQ(full.kind, Kind::wait);
    EXPECT_TRUE(std::isinf(full.until_s));
    schedule.done(1, 1.0, false);
    EXPECT_EQ(schedule.next(1.0).conversation, 2u);
    schedule.done(0, 2.0, false);
    EXPECT_EQ(schedule.next(2.0).kind, Kind::wait);
    schedule.done(2, 3.0, false);
    EXPECT_EQ(schedule.next(3.0).kind, Kind::finished);
}

TEST(Schedule, ConversationsRestForTheirGap) {
    Workload workload = shape(1, 1);
    workload.gap_s = 10.0;
    Schedule schedule(workload, 1);
    ASSERT_EQ(schedule.next(0.0).kind, Kind::take);
    schedule.done(0, 3.0, true);
    const auto resting = schedule.next(4.0);
    EXPECT_EQ(resting.kind, Kind::wait);
    EXPECT_DOUBLE_EQ(resting.until_s, 13.0);
    EXPECT_EQ(schedule.next(13.0).kind, Kind::take);
}

TEST(Schedule, PeriodicConversationsAreShiftedAndKeepTheirPace) {
    Workload workload = shape(4, 4);
    workload.arrivals = Arrivals::periodic;
    workload.rate = 2.0;
    Schedule schedule(workload, 1);
    double now = 0.0;
    std::vector<double> leaves;
    for (int i = 0; i < 8; ++i) {
        auto step = schedule.next(now);
        if (step.kind == Kind::wait) now = step.until_s, step = schedule.next(now);
        ASSERT_EQ(step.kind, Kind::take);
        EXPECT_EQ(step.conversation, static_cast<size_t>(i % 4));
        leaves.push_back(now);
        schedule.done(step.conversation, now + 0.25, true);
    }
    EXPECT_THAT(leaves, ElementsAre(0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5));
}

TEST(Schedule, SlowAnswersPushPeriodicTurnsBackByTheGap) {
    Workload workload = shape(1, 1);
    workload.arrivals = Arrivals::periodic;
    workload.rate = 1.0;
    workload.gap_s = 2.0;
    Schedule schedule(workload, 1);
    ASSERT_EQ(schedule.next(0.0).kind, Kind::take);
    schedule.done(0, 5.0, true);
    EXPECT_DOUBLE_EQ(schedule.next(5.0).until_s, 7.0);
}

TEST(Schedule, PoissonTurnsComeAtTheRateAndWithTheSeed) {
    const auto leaves = [](uint64_t seed) {
        Workload workload = shape(2000, 2000);
        workload.rate = 8.0;
        Schedule schedule(workload, seed);
        std::vector<double> out;
        double now = 0.0;
        for (;;) {
            const auto step = schedule.next(now);
            if (step.kind == Kind::finished) return out;
            if (step.kind == Kind::wait) {
                now = step.until_s;
            } else {
                out.push_back(now);
                schedule.done(step.conversation, now, false);
            }
        }
    };
    const auto times = leaves(1);
    ASSERT_EQ(times.size(), 2000u);
    EXPECT_NEAR(times.back(), 250.0, 20.0);
    int close = 0;  // as many as an exponential has below its mean, which even gaps would not
    for (size_t i = 1; i < times.size(); ++i) close += times[i] - times[i - 1] < 0.125 ? 1 : 0;
    EXPECT_NEAR(close / 1999.0, 1.0 - std::exp(-1.0), 0.04);
    EXPECT_EQ(times, leaves(1));
    EXPECT_NE(times, leaves(2));
}

TEST(Schedule, LateClientsDoNotThinTheLoadAndAreSeen) {
    Workload workload = shape(100, 100);
    workload.rate = 100.0;
    Schedule schedule(workload, 1);
    ASSERT_EQ(schedule.next(0.0).kind, Kind::take);
    // Nobody asked for ten seconds; all that fell due meanwhile leaves at once.
    for (int i = 1; i < 100; ++i) {
        const auto step = schedule.next(10.0);
        ASSERT_EQ(step.kind, Kind::take);
        EXPECT_GT(step.late_s, 5.0);
    }
    Schedule unhurried(shape(1, 1), 1);
    EXPECT_EQ(unhurried.next(10.0).late_s, 0.0);
}

}  // namespace
}  // namespace rondo::cli::multi_turn
