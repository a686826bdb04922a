// How long computing takes, by what was measured.

#include "actors/compute_rate.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

/// Tokens of which each takes a second, and as much again for each thousand tokens before it.
ComputedTokens measured(int64_t first, int64_t tokens, double noise = 1.0) {
    ComputedTokens computed;
    computed.add(first, tokens);
    computed.seconds = noise * (computed.tokens + computed.depths / 1000);
    return computed;
}

TEST(ComputeRate, NothingIsKnownBeforeTheFirstPrompt) {
    ComputeRate rate;
    EXPECT_FALSE(rate.is_known());
    EXPECT_EQ(rate.seconds(0, 100), 0.0);
    rate.learn({});
    rate.learn({.tokens = 10.0, .seconds = 0.0});
    EXPECT_FALSE(rate.is_known()) << "nothing was computed";
}

TEST(ComputeRate, OnePromptSaysItAllTheSameForEveryDepth) {
    ComputeRate rate;
    rate.learn({.tokens = 100.0, .seconds = 2.0, .depths = 5000.0});
    EXPECT_DOUBLE_EQ(rate.seconds(0, 50), 1.0);
    EXPECT_DOUBLE_EQ(rate.seconds(10'000, 50), 1.0);
}

TEST(ComputeRate, DeeperTokensTakeLonger) {
    ComputeRate rate;
    for (int64_t first = 0; first < 8000; first += 500) rate.learn(measured(first, 500));
    EXPECT_NEAR(rate.seconds(0, 1000) / measured(0, 1000).seconds, 1.0, 0.25);
    EXPECT_NEAR(rate.seconds(6000, 1000) / measured(6000, 1000).seconds, 1.0, 0.05);
    EXPECT_NEAR(rate.seconds(9000, 1000) / measured(9000, 1000).seconds, 1.0, 0.05);
}

/// Short prompts are alike in depth and differ by chance. That says nothing of long ones.
TEST(ComputeRate, ChanceMakesNoSlope) {
    ComputeRate rate;
    for (int i = 0; i < 50; ++i) {
        ComputedTokens computed;
        computed.add(0, 200 + 2 * i);
        computed.seconds = computed.tokens * (i % 2 == 0 ? 1.3 : 0.7);
        rate.learn(computed);
    }
    EXPECT_NEAR(rate.seconds(8000, 100), 100.0, 25.0);
}

TEST(ComputeRate, AShortPromptCountsLittle) {
    ComputeRate rate;
    rate.learn({.tokens = 1000.0, .seconds = 10.0, .depths = 500'000.0});
    for (int i = 0; i < 10; ++i) rate.learn({.tokens = 2.0, .seconds = 1.0, .depths = 2000.0});
    EXPECT_NEAR(rate.seconds_per_token(), 0.0196, 0.0005);
}

TEST(ComputeRate, WhatIsOldFades) {
    ComputeRate rate;
    rate.learn({.tokens = 4096.0, .seconds = 4096.0});
    for (int i = 0; i < 20; ++i) rate.learn({.tokens = 4096.0, .seconds = 40.96});
    EXPECT_NEAR(rate.seconds_per_token(), 0.01, 0.001);
}

TEST(ComputeRate, NoTokenTakesNoTime) {
    ComputeRate rate;
    rate.learn({.tokens = 1000.0, .seconds = 1.0, .depths = 500'000.0});
    for (int i = 0; i < 20; ++i) rate.learn({.tokens = 1000.0, .seconds = 100.0, .depths = 8'000'000.0});
    EXPECT_GT(rate.seconds(0, 100), 0.0);
    EXPECT_GT(rate.seconds(20'000, 100), rate.seconds(8000, 100));
}

}  // namespace
}  // namespace rondo
