#include "actors/device_pace.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace rondo {
namespace {

TEST(DevicePace, BeginsWithOneLayerAndLearnsHowManyFit) {
    DevicePace pace;
    EXPECT_EQ(pace.begin_chunk(512, 0.1, 24), 1) << "nothing is measured";
    pace.end_chunk(0.01);
    EXPECT_EQ(pace.begin_chunk(512, 0.1, 24), 10);
    EXPECT_EQ(pace.begin_chunk(256, 0.1, 24), 20) << "fewer rows take less time";
    EXPECT_EQ(pace.begin_chunk(512, 0.1, 4), 4) << "no more are left";
    EXPECT_EQ(pace.begin_chunk(512, 0.001, 24), 1) << "at least a layer is run";
    EXPECT_EQ(pace.begin_chunk(512, 0.0, 24), 1);
}

TEST(DevicePace, BelievesASlowPieceAtOnceAndAFastOneSlowly) {
    DevicePace pace;
    pace.begin_chunk(100, 1.0, 1);
    pace.end_chunk(0.1);
    pace.begin_chunk(100, 1.0, 1);
    pace.end_chunk(0.2);
    EXPECT_EQ(pace.begin_chunk(100, 1.0, 100), 5);
    pace.end_chunk(0.5);  // for five layers: half as long for each
    EXPECT_EQ(pace.begin_chunk(100, 1.0, 100), 5) << "an eighth of the way";
    for (int i = 0; i < 50; ++i) {
        const int layers = pace.begin_chunk(100, 1.0, 100);
        pace.end_chunk(0.1 * layers);
    }
    EXPECT_NEAR(pace.begin_chunk(100, 1.0, 100), 10, 1);
}

TEST(DevicePace, LearnsNothingFromAChunkThatWasDropped) {
    DevicePace pace;
    pace.begin_chunk(100, 1.0, 1);
    pace.end_chunk(0.1);
    pace.begin_chunk(100, 1.0, 1);
    pace.drop_chunk();
    pace.end_chunk(1000.0);
    EXPECT_EQ(pace.begin_chunk(100, 1.0, 100), 10);
}

TEST(DevicePace, AChoiceTakesAQuarterOfAStepUnlessItWouldBeLate) {
    DevicePace pace;
    pace.end_step(100, 0.08);
    EXPECT_EQ(pace.begin_choice(1000, 24, 1100), 1) << "nothing is measured, and there is time";
    pace.end_choice(0.01);
    // Eight layers fit into a step, so two into a quarter of one.
    EXPECT_EQ(pace.begin_choice(1000, 24, 1100), 2);
    EXPECT_EQ(pace.begin_choice(1000, 24, 107), 4) << "in six pieces it is ready, the seventh puts it together";
    EXPECT_EQ(pace.begin_choice(1000, 24, 102), 8) << "not more than a step";
    EXPECT_EQ(pace.begin_choice(1000, 24, 100), 8);
    EXPECT_EQ(pace.begin_choice(1000, 24, 7), 8) << "it was due long ago";
    EXPECT_EQ(pace.begin_choice(4000, 24, 100), 2) << "more keys take longer";
    EXPECT_EQ(pace.begin_choice(1000, 5, 100), 5) << "no more are left";
    EXPECT_EQ(pace.begin_choice(1000, 0, 100), 0);
    EXPECT_EQ(pace.begin_choice(1'000'000, 24, 100), 1) << "at least a layer";
}

TEST(DevicePace, NothingAndTooMuchAreNoTrouble) {
    DevicePace pace;
    EXPECT_EQ(pace.begin_chunk(0, 0.1, 24), 1);
    pace.end_chunk(1.0);
    EXPECT_EQ(pace.begin_choice(0, 24, 5), 4);
    pace.end_choice(1.0);
    EXPECT_EQ(pace.begin_chunk(512, std::numeric_limits<double>::infinity(), 24), 1) << "nothing was learned";
    pace.end_chunk(0.0);
    EXPECT_EQ(pace.begin_chunk(512, 1e300, 24), 1) << "no time at all is no measure";
    pace.end_chunk(1e-30);
    EXPECT_EQ(pace.begin_chunk(512, 1e300, 24), 24);
}

}  // namespace
}  // namespace rondo
