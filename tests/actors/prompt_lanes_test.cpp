#include "actors/prompt_lanes.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

using After = PromptLanes::After;

/// The prompt that one lane's device computes next, or 0.
uint64_t next(PromptLanes& lanes, size_t lane = 0) {
    const auto piece = lanes.begin(lane);
    return piece ? piece->id : 0;
}

After whole_chunk(PromptLanes& lanes, int64_t tokens, size_t lane = 0) {
    return lanes.end(lane, {.tokens = tokens, .seconds = 0.01});
}

After stopped(PromptLanes& lanes, size_t lane = 0) {
    return lanes.end(lane, {.seconds = 0.01, .open = true});
}

After completed(PromptLanes& lanes, int64_t tokens, size_t lane = 0) {
    return lanes.end(lane, {.tokens = tokens, .seconds = 0.01, .complete = true});
}

TEST(PromptLanes, ADeviceHasOnePieceAtATime) {
    PromptLanes lanes({});
    EXPECT_FALSE(lanes.begin(0));
    EXPECT_EQ(lanes.add(1, 0, 100), 0U);
    lanes.add(2, 0, 100);
    EXPECT_EQ(next(lanes), 1U);
    EXPECT_FALSE(lanes.begin(0)) << "the first is under way";
    EXPECT_EQ(completed(lanes, 100), After::leaves);
    EXPECT_EQ(lanes.tokens(0), 100);
    EXPECT_EQ(next(lanes), 2U);
    EXPECT_EQ(completed(lanes, 100), After::leaves);
    EXPECT_FALSE(lanes.begin(0));
    EXPECT_EQ(lanes.tokens(0), 0);
}

TEST(PromptLanes, WhatIsLeftShrinksByWholeChunks) {
    PromptLanes lanes({});
    lanes.add(1, 0, 1000);
    EXPECT_EQ(next(lanes), 1U);
    EXPECT_EQ(stopped(lanes), After::goes_on);
    EXPECT_EQ(lanes.tokens(0), 1000);
    EXPECT_EQ(next(lanes), 1U);
    EXPECT_EQ(whole_chunk(lanes, 512), After::goes_on);
    EXPECT_EQ(lanes.tokens(0), 488);
}

TEST(PromptLanes, AShortPromptPassesALongOneWhereAChunkEnds) {
    PromptLanes lanes({.open_max = 3});
    lanes.add(1, 0, 4096);
    EXPECT_EQ(next(lanes), 1U);
    lanes.add(2, 0, 10);
    stopped(lanes);
    EXPECT_EQ(next(lanes), 1U) << "equal priorities do not park each other";
    whole_chunk(lanes, 512);
    EXPECT_EQ(next(lanes), 2U);
}

TEST(PromptLanes, AMoreUrgentPromptParksAChunkWhileTheDeviceCanHoldAnother) {
    PromptLanes lanes({.open_max = 2});
    lanes.add(1, 0, 4096);
    next(lanes);
    stopped(lanes);
    lanes.add(2, 1, 4096);
    EXPECT_EQ(next(lanes), 2U);
    stopped(lanes);
    lanes.add(3, 2, 10);
    EXPECT_EQ(next(lanes), 2U) << "both places are taken; the more urgent of those that have begun goes on";
    EXPECT_EQ(whole_chunk(lanes, 512), After::goes_on);
    EXPECT_EQ(next(lanes), 3U);
    EXPECT_EQ(completed(lanes, 10), After::leaves);
    EXPECT_EQ(next(lanes), 2U);
    EXPECT_EQ(completed(lanes, 4096 - 512), After::leaves);
    EXPECT_EQ(next(lanes), 1U) << "what was parked goes on";
}

TEST(PromptLanes, WhoWaitsHoldsUpNobody) {
    PromptLanes lanes({});
    lanes.add(1, 5, 100);
    lanes.add(2, 0, 100);
    lanes.wait(1, true);
    EXPECT_EQ(next(lanes), 2U) << "though it is less urgent";
    EXPECT_EQ(completed(lanes, 100), After::leaves);
    EXPECT_FALSE(lanes.begin(0));
    lanes.wait(1, false);
    EXPECT_EQ(next(lanes), 1U);
}

TEST(PromptLanes, AChunkThatWaitsIsParkedWhereThereIsAPlaceForAnother) {
    PromptLanes lanes({.open_max = 2});
    lanes.add(1, 0, 100);
    next(lanes);
    stopped(lanes);
    lanes.wait(1, true);
    EXPECT_FALSE(lanes.begin(0));
    lanes.add(2, 0, 100);
    EXPECT_EQ(next(lanes), 2U);
    stopped(lanes);
    lanes.wait(1, false);
    EXPECT_EQ(next(lanes), 1U) << "the first of equals goes on";
}

TEST(PromptLanes, AChunkThatWaitsGivesItsPlaceToOneThatCanGoOnAndIsComputedAgain) {
    PromptLanes lanes({.open_max = 1});
    lanes.add(1, 0, 100);
    next(lanes);
    EXPECT_EQ(lanes.end(0, {.tokens = 100, .seconds = 0.01, .open = true}), After::goes_on);
    lanes.wait(1, true);
    lanes.add(2, 0, 50);
    const auto given_up = lanes.begin(0);
    ASSERT_TRUE(given_up);
    EXPECT_EQ(given_up->id, 1U);
    EXPECT_TRUE(given_up->drop);
    EXPECT_EQ(lanes.end(0, {.tokens = -100}), After::goes_on);
    EXPECT_EQ(lanes.tokens(0), 150) << "nothing of it is computed";
    EXPECT_EQ(next(lanes), 2U);
    EXPECT_EQ(completed(lanes, 50), After::leaves);
    lanes.wait(1, false);
    EXPECT_EQ(next(lanes), 1U);
    EXPECT_EQ(completed(lanes, 100), After::leaves);
}

TEST(PromptLanes, AChunkOfNoUseIsGivenUpFirstAndThereIsMoreToCompute) {
    PromptLanes lanes({.open_max = 2});
    lanes.add(1, 0, 100);
    EXPECT_FALSE(lanes.drop_chunk(1)) << "none is open";
    EXPECT_EQ(next(lanes), 1U);
    stopped(lanes);
    lanes.wait(1, true);
    lanes.add(2, 5, 50);
    EXPECT_TRUE(lanes.drop_chunk(1));
    const auto dropped = lanes.begin(0);
    ASSERT_TRUE(dropped);
    EXPECT_EQ(dropped->id, 1U);
    EXPECT_TRUE(dropped->drop);
    EXPECT_EQ(lanes.end(0, {}), After::goes_on);
    EXPECT_FALSE(lanes.drop_chunk(1));
    lanes.grow(1, 300);
    EXPECT_EQ(lanes.tokens(0), 450);
}

TEST(PromptLanes, AWithdrawnPromptLeavesAtOnceUnlessADeviceHoldsSomeOfIt) {
    PromptLanes lanes({.open_max = 2});
    lanes.add(1, 0, 4096);
    lanes.add(2, 0, 4096);
    next(lanes);
    EXPECT_EQ(lanes.withdraw(2), After::leaves);
    EXPECT_EQ(lanes.withdraw(2), After::goes_on) << "it is known no more";
    EXPECT_EQ(lanes.withdraw(1), After::goes_on) << "its piece is under way";
    EXPECT_EQ(lanes.withdraw(1), After::goes_on);
    EXPECT_EQ(stopped(lanes), After::goes_on);
    const auto piece = lanes.begin(0);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->id, 1U);
    EXPECT_TRUE(piece->drop);
    EXPECT_EQ(lanes.end(0, {}), After::leaves);
    EXPECT_FALSE(lanes.begin(0));
    EXPECT_EQ(lanes.tokens(0), 0);
}

TEST(PromptLanes, AWithdrawnPromptThatIsParkedIsGivenUpBeforeOthersGoOn) {
    PromptLanes lanes({.open_max = 2});
    lanes.add(1, 0, 4096);
    next(lanes);
    stopped(lanes);
    lanes.add(2, 5, 4096);
    next(lanes);
    stopped(lanes);
    EXPECT_EQ(lanes.withdraw(1), After::goes_on);
    const auto piece = lanes.begin(0);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->id, 1U);
    EXPECT_TRUE(piece->drop);
    EXPECT_EQ(lanes.end(0, {}), After::leaves);
    EXPECT_EQ(next(lanes), 2U);
}

TEST(PromptLanes, AFailedPieceTakesItsPromptAndNoOther) {
    PromptLanes lanes({.open_max = 2});
    lanes.add(1, 0, 100);
    lanes.add(2, 0, 100);
    next(lanes);
    stopped(lanes);
    next(lanes);
    EXPECT_EQ(lanes.end(0, {.open = true, .failed = true}), After::leaves);
    EXPECT_EQ(next(lanes), 2U);
}

TEST(PromptLanes, AShortPromptGoesWhereItIsDoneSooner) {
    PromptLanes lanes({.lanes = 2, .beside_decode_tokens_max = 512});
    EXPECT_EQ(lanes.add(1, 0, 100), 0U) << "nothing is measured, nobody waits";
    EXPECT_EQ(lanes.add(2, 0, 100), 1U) << "the first has work";
    EXPECT_EQ(lanes.add(3, 0, 100'000), 0U) << "a long one does not go where answers are made";
    EXPECT_EQ(next(lanes, 1), 2U);
    EXPECT_EQ(lanes.end(1, {.tokens = 100, .seconds = 100.0, .complete = true}), After::leaves);
    EXPECT_EQ(next(lanes, 0), 1U);
    EXPECT_EQ(lanes.end(0, {.tokens = 100, .seconds = 0.001, .complete = true}), After::leaves);
    // A token a second there, and 100,000 here: so the queue of the first lane is the shorter one.
    EXPECT_EQ(lanes.add(4, 0, 100), 0U);
    EXPECT_EQ(lanes.add(5, 0, 513), 0U);
}

TEST(PromptLanes, LongPromptsGoSideBySideOnAllDevicesMeantForThem) {
    PromptLanes lanes({.lanes = 3, .for_prompts = 2, .beside_decode_tokens_max = 512});
    EXPECT_EQ(lanes.add(1, 0, 4000), 0U);
    EXPECT_EQ(lanes.add(2, 0, 4000), 1U);
    EXPECT_EQ(next(lanes, 0), 1U);
    EXPECT_EQ(next(lanes, 1), 2U);
    EXPECT_EQ(lanes.add(3, 0, 1000), 0U);
    EXPECT_EQ(lanes.add(4, 0, 1000), 1U);
    EXPECT_EQ(lanes.add(5, 0, 512), 2U);
    EXPECT_EQ(next(lanes, 2), 5U);
}

/// Where no device is for answers alone, none refuses long prompts.
TEST(PromptLanes, EveryDeviceMeantForPromptsTakesLongOnes) {
    PromptLanes lanes({.lanes = 3, .for_prompts = 3, .beside_decode_tokens_max = 512});
    for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(lanes.add(id, 0, 4000), id - 1);
}

TEST(PromptLanes, ADeviceWithoutWorkTakesOverAPromptThatWaits) {
    PromptLanes lanes({.lanes = 2, .for_prompts = 2});
    const auto complete = [&](size_t lane, int64_t tokens) {
        lanes.end(lane, {.tokens = tokens, .seconds = static_cast<double>(tokens) * 1e-5, .complete = true});
    };
    for (const size_t lane : {0, 1}) {  // both are as fast
        EXPECT_EQ(lanes.add(lane + 1, 0, 100), lane);
        EXPECT_EQ(next(lanes, lane), lane + 1);
    }
    complete(0, 100);
    complete(1, 100);
    EXPECT_EQ(lanes.add(3, 0, 1000), 0U);
    EXPECT_EQ(next(lanes, 0), 3U);
    EXPECT_EQ(lanes.add(4, 0, 5000), 1U);
    EXPECT_EQ(next(lanes, 1), 4U);
    EXPECT_EQ(lanes.add(5, 0, 3000), 0U);
    EXPECT_EQ(lanes.add(6, 1, 3000), 0U);
    complete(1, 5000);
    EXPECT_EQ(next(lanes, 1), 6U) << "the more urgent one";
    complete(1, 3000);
    EXPECT_EQ(next(lanes, 1), 5U);
    complete(1, 3000);
    EXPECT_FALSE(lanes.begin(1)) << "the only prompt that is left has begun on the other device";
    EXPECT_EQ(lanes.tokens(0), 1000);
    EXPECT_EQ(lanes.add(7, 5, 5000), 1U);
    EXPECT_EQ(next(lanes, 1), 7U);
    EXPECT_EQ(lanes.add(8, 5, 3000), 0U);
    EXPECT_EQ(lanes.add(9, 0, 3000), 0U);
    lanes.wait(8, true);
    complete(1, 5000);
    EXPECT_EQ(next(lanes, 1), 9U) << "the other one waits for its keys";
}

TEST(PromptLanes, ASlowDeviceLeavesAPromptToTheOneThatIsDoneSooner) {
    PromptLanes lanes({.lanes = 2, .for_prompts = 2});
    lanes.add(1, 0, 100);
    lanes.add(2, 0, 100);
    next(lanes, 0);
    next(lanes, 1);
    lanes.end(0, {.tokens = 100, .seconds = 0.1, .complete = true});   // 1000 tokens a second
    lanes.end(1, {.tokens = 100, .seconds = 10.0, .complete = true});  // 10
    EXPECT_EQ(lanes.add(3, 0, 1000), 0U);
    EXPECT_EQ(lanes.add(4, 0, 1000), 0U);
    EXPECT_EQ(next(lanes, 0), 3U);
    EXPECT_FALSE(lanes.begin(1)) << "100 s against 2 s";
    EXPECT_EQ(lanes.add(5, 0, 10), 1U) << "1 s against 2 s";
    lanes.withdraw(5);
    EXPECT_FALSE(lanes.begin(1));
}

TEST(PromptLanes, ADeviceThatStaysAtItsFirstChunkKeepsNoPromptWaiting) {
    PromptLanes lanes({.lanes = 2, .for_prompts = 2});
    for (uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(lanes.add(id, 0, 1000), (id - 1) % 2);
    EXPECT_EQ(next(lanes, 0), 1U);
    for (const uint64_t id : {2, 4, 3}) {
        EXPECT_EQ(next(lanes, 1), id);
        lanes.end(1, {.tokens = 1000, .seconds = 1.0, .complete = true});
    }
    EXPECT_FALSE(lanes.begin(1));
}

/// What decodes has no prompt of its own: it computes those that it was given.
TEST(PromptLanes, ADeviceForAnswersTakesNothingOver) {
    PromptLanes lanes({.lanes = 2});
    lanes.add(1, 0, 1000);
    lanes.add(2, 0, 1000);
    EXPECT_EQ(next(lanes, 0), 1U);
    EXPECT_FALSE(lanes.begin(1));
    EXPECT_EQ(lanes.tokens(0), 2000);
}

/// Short prompts that went to the device for answers while the others were busy.
TEST(PromptLanes, AnIdleDeviceTakesOverWhatWaitsWhereAnswersAreMade) {
    PromptLanes lanes({.lanes = 2});
    EXPECT_EQ(lanes.add(1, 0, 400), 0U);
    EXPECT_EQ(lanes.add(2, 0, 300), 1U);
    EXPECT_EQ(lanes.add(3, 0, 300), 1U);
    EXPECT_EQ(next(lanes, 0), 1U);
    EXPECT_EQ(next(lanes, 1), 2U);
    EXPECT_EQ(lanes.end(0, {.tokens = 400, .seconds = 0.1, .complete = true}), PromptLanes::After::leaves);
    EXPECT_EQ(next(lanes, 0), 3U);
    EXPECT_EQ(lanes.tokens(1), 300);
}

TEST(PromptLanes, AnIdleDeviceTakesTheMostUrgentOver) {
    PromptLanes lanes({.lanes = 3, .for_prompts = 3});
    EXPECT_EQ(lanes.add(1, 0, 900), 0U);
    EXPECT_EQ(lanes.add(2, 0, 800), 1U);
    EXPECT_EQ(lanes.add(3, 0, 100), 2U);
    EXPECT_EQ(next(lanes, 2), 3U);
    EXPECT_EQ(next(lanes, 0), 1U);
    EXPECT_EQ(next(lanes, 1), 2U);
    EXPECT_EQ(lanes.add(4, 0, 700), 2U);
    EXPECT_EQ(lanes.add(5, 0, 800), 1U);
    EXPECT_EQ(lanes.add(6, 1, 700), 2U);
    // Lane 1 has more work, but what waits in lane 2 is more urgent.
    EXPECT_EQ(lanes.end(0, {.tokens = 900, .seconds = 0.1, .complete = true}), PromptLanes::After::leaves);
    EXPECT_EQ(next(lanes, 0), 6U);
}

}  // namespace
}  // namespace rondo
