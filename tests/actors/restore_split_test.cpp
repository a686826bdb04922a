// Which rounds are computed while others are read. The numbers say what is soonest.

#include "actors/restore_split.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

/// Ten rounds of 1,000 bytes, each a second's work for the computer.
RestoreTask ten_rounds(double disk_seconds_of_a_round) {
    RestoreTask task;
    task.rounds.assign(10, {1.0, 1000});
    task.seconds_per_byte = disk_seconds_of_a_round / 1000;
    return task;
}

TEST(RestoreSplit, DiskAndComputerAreDoneAtTheSameTime) {
    EXPECT_EQ(rounds_ahead(ten_rounds(1.0)), 5U);
    EXPECT_EQ(rounds_ahead(ten_rounds(1.5)), 6U);
    EXPECT_EQ(rounds_ahead(ten_rounds(2.0 / 3)), 4U);
}

TEST(RestoreSplit, AFastDiskReadsAll) {
    EXPECT_EQ(rounds_ahead(ten_rounds(0.3)), 2U);
    EXPECT_EQ(rounds_ahead(ten_rounds(0.2)), 0U) << "one round's computing would save less than a quarter of itself";
    EXPECT_EQ(rounds_ahead(ten_rounds(0.0)), 0U);
}

TEST(RestoreSplit, ASlowDiskReadsTheLastRoundsAlone) {
    EXPECT_EQ(rounds_ahead(ten_rounds(8.0)), 9U);
    EXPECT_EQ(rounds_ahead(ten_rounds(20.0)), 0U) << "all are computed before it has read one";
}

TEST(RestoreSplit, WhatIsComputedInAnyCaseFillsTheTimeOfReading) {
    RestoreTask task = ten_rounds(1.0);
    task.seconds_behind = 4.0;
    EXPECT_EQ(rounds_ahead(task), 3U);
    task.seconds_behind = 10.0;
    EXPECT_EQ(rounds_ahead(task), 0U);
}

TEST(RestoreSplit, WhatOthersWaitForComesFirst) {
    RestoreTask task = ten_rounds(1.0);
    task.computed_from = 4.0;
    EXPECT_EQ(rounds_ahead(task), 3U);
    task.computed_from = 0.0;
    task.read_from = 4.0;
    EXPECT_EQ(rounds_ahead(task), 7U);
}

TEST(RestoreSplit, WhatLiesInHostMemoryIsNotComputed) {
    RestoreTask task = ten_rounds(1.0);
    for (RestoreTask::Round& round : task.rounds) round.bytes = 0;
    EXPECT_EQ(rounds_ahead(task), 0U);
    task.rounds.back().bytes = 1000;
    EXPECT_EQ(rounds_ahead(task), 0U);
    for (size_t i = 1; i < 10; ++i) task.rounds[i].bytes = 1000;
    EXPECT_EQ(rounds_ahead(task), 5U) << "its round is not read in any case, and stands before the others";
}

TEST(RestoreSplit, RoundsAreNotCut) {
    RestoreTask task;
    task.seconds_per_byte = 0.001;
    EXPECT_EQ(rounds_ahead(task), 0U);
    task.rounds = {{10.0, 10'000}};
    EXPECT_EQ(rounds_ahead(task), 0U);
    task.rounds = {{9.0, 9000}, {1.0, 1000}};
    EXPECT_EQ(rounds_ahead(task), 0U) << "9 in place of 10 seconds, and 9 of computing";
    task.seconds_per_byte = 0.0011;
    EXPECT_EQ(rounds_ahead(task), 1U) << "else all of it would be computed, in 10";
    task.seconds_per_byte = 0.001;
    task.rounds = {{6.0, 6000}, {4.0, 4000}};
    EXPECT_EQ(rounds_ahead(task), 1U);
}

}  // namespace
}  // namespace rondo
