// A seeded model check of what a turn may go through (turn_world.hpp).

#include <gtest/gtest.h>

#include <string>

#include "tests/actors/turn_world.hpp"

namespace rondo {
namespace {

using testing::Seen;
using testing::World;

class TurnModel : public ::testing::TestWithParam<int> {};

TEST_P(TurnModel, HoldsWhateverHappens) {
    Seen seen;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const uint64_t whole = static_cast<uint64_t>(GetParam()) * 20 + seed;
        SCOPED_TRACE("seed " + std::to_string(whole));
        World(whole, seen).run(1500);
        if (HasFailure()) return;
    }
    EXPECT_GT(seen.over, 100);
    EXPECT_GT(seen.preempted, 10);
    EXPECT_GT(seen.found, 100);
    EXPECT_GT(seen.evicted, 100);
    EXPECT_GT(seen.claimed, 20);
    EXPECT_GT(seen.with_gaps, 50);
    EXPECT_GT(seen.changed, 100);
    EXPECT_GT(seen.restored, 30);
    EXPECT_GT(seen.damaged, 0);
    EXPECT_GT(seen.unwanted, 0);
    EXPECT_GT(seen.exact_for_methods, 20);
    EXPECT_GT(seen.ahead, 0);
    EXPECT_GT(seen.left_ahead, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TurnModel, ::testing::Range(0, 10));

}  // namespace
}  // namespace rondo
