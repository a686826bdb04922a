#include <gtest/gtest.h>

#include <numeric>

#include "memory/sequence_kv.hpp"
#include "tests/counting_allocator.hpp"
#include "tests/memory/sequence_pool.hpp"

/// Sequences of which one layer group holds fewer rounds than the other.
namespace rondo {
namespace {

using testing::begins;
using testing::FakeDevice;
using Numbers = std::vector<int32_t>;

using enum LayerGroup;

std::unique_ptr<KvPool> two_group_pool(Device& device, size_t lower_blocks, size_t upper_blocks) {
    const KvShape shape{.layers = 3, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    return std::move(KvPool::create(device, shape, {lower_blocks, upper_blocks})).value();
}

const std::vector<int64_t> both{0, 1};

/// Rounds of 20, 5 and 18 tokens.
class ThreeRounds : public ::testing::Test {
protected:
    ThreeRounds() {
        for (const int64_t round : {20, 5, 18}) {
            kv_.begin_round();
            EXPECT_TRUE(kv_.extend(round));
        }
    }

    FakeDevice device_;
    const std::unique_ptr<KvPool> pool_ = two_group_pool(device_, 16, 8);
    SequenceKv kv_{*pool_};
};

TEST_F(ThreeRounds, ARoundThatIsReleasedInOneGroupStaysInTheOther) {
    const int32_t first = kv_.blocks(upper)[0], last = kv_.blocks(upper)[4];
    kv_.release_round(upper, 1);
    EXPECT_EQ(begins(kv_, lower), (Numbers{0, 16, 20, 25, 41, 43}));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 20, 36, 38}));
    EXPECT_EQ(pool_->blocks_free(upper), 4U);
    EXPECT_EQ(pool_->blocks_free(lower), 11U);
    EXPECT_EQ(kv_.tokens(), 43);
    EXPECT_EQ(kv_.tokens(lower), 43);
    EXPECT_EQ(kv_.tokens(upper), 38);
    EXPECT_EQ(kv_.round_begin(2), 25);
    EXPECT_EQ(kv_.round_begin(upper, 2), 20);
    EXPECT_TRUE(kv_.holds(lower, 1));
    EXPECT_FALSE(kv_.holds(upper, 1));
    EXPECT_FALSE(kv_.is_whole());
    EXPECT_EQ(kv_.slot(upper, 0), first * 16);
    EXPECT_EQ(kv_.slot(upper, 42), last * 16 + 1) << "a token is found by its own number";
    kv_.release_round(upper, 1);
    EXPECT_EQ(kv_.tokens(upper), 38) << "once is enough";
}

TEST_F(ThreeRounds, WhatFollowsAReleasedRoundGoesIntoBothGroups) {
    kv_.release_round(upper, 0);
    EXPECT_EQ(kv_.blocks_for(14), (BlockCounts{0, 0}));
    EXPECT_EQ(kv_.blocks_for(15), (BlockCounts{1, 1}));
    ASSERT_TRUE(kv_.extend(15));
    EXPECT_EQ(begins(kv_, lower), (Numbers{0, 16, 20, 25, 41, 57, 58}));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 5, 21, 37, 38}));
    EXPECT_EQ(kv_.slot(upper, 57) % 16, 0);
}

TEST_F(ThreeRounds, ARoundIsTakenAgainWithTheOtherGroupsBorders) {
    kv_.release_round(upper, 0);
    kv_.release_round(upper, 1);
    ASSERT_TRUE(kv_.take_round(upper, 0));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 20, 36, 38}));
    EXPECT_FALSE(kv_.is_whole());
    ASSERT_TRUE(kv_.take_round(upper, 1));
    EXPECT_EQ(begins(kv_, upper), begins(kv_, lower));
    EXPECT_TRUE(kv_.is_whole());
}

TEST_F(ThreeRounds, ARoundThatThePoolHasNoBlocksForIsNotTaken) {
    kv_.release_round(upper, 0);
    const auto others = std::move(pool_->acquire(upper, 4)).value();  // of 8, three are the sequence's
    const Status status = kv_.take_round(upper, 0);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 5, 21, 23}));
    EXPECT_EQ(pool_->blocks_free(upper), 1U);
}

TEST_F(ThreeRounds, ReleasingTheLastRoundMakesTheNextTokensOpenAnother) {
    kv_.release_round(upper, 2);
    EXPECT_EQ(kv_.blocks_for(1), (BlockCounts{1, 1}));
    ASSERT_TRUE(kv_.extend(3));
    EXPECT_EQ(kv_.rounds(), 4);
    EXPECT_EQ(begins(kv_, lower), (Numbers{0, 16, 20, 25, 41, 43, 46}));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 20, 25, 28}));
}

TEST_F(ThreeRounds, ACutInsideARoundThatAGroupDoesNotHoldEndsIt) {
    kv_.release_round(upper, 1);
    kv_.truncate(22);
    EXPECT_EQ(begins(kv_, lower), (Numbers{0, 16, 20, 22}));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 20}));
    ASSERT_TRUE(kv_.extend(2));
    EXPECT_EQ(kv_.rounds(), 3);
    EXPECT_EQ(begins(kv_, lower), (Numbers{0, 16, 20, 22, 24}));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 20, 22}));
    kv_.truncate(22);
    ASSERT_TRUE(kv_.take_round(upper, 1));
    EXPECT_EQ(begins(kv_, upper), begins(kv_, lower));
}

TEST(SequenceGroups, TheReserveHoldsWhereACutLeavesABlockPartlyFilled) {
    FakeDevice device;
    const auto pool = two_group_pool(device, 16, 16);
    SequenceKv kv(*pool);
    kv.reserve(128);
    ASSERT_TRUE(kv.extend(128));
    kv.release_round(upper, 0);
    kv.truncate(114);
    const int64_t before = testing::allocations();
    const bool done = kv.extend(14).is_ok();
    EXPECT_EQ(testing::allocations(), before);
    EXPECT_TRUE(done);
    EXPECT_EQ(kv.blocks(lower).size(), 9U);
}

TEST_F(ThreeRounds, ABeginningIsGivenUpByTokenInEachGroup) {
    kv_.release_round(upper, 0);
    kv_.release_before(30);
    EXPECT_EQ(begins(kv_, lower), (Numbers{25, 41, 43}));
    EXPECT_EQ(begins(kv_, upper), (Numbers{5, 21, 23}));
    EXPECT_EQ(kv_.first_held(), 25);
    EXPECT_EQ(kv_.slot(upper, 42) % 16, 1);
    kv_.truncate(25);
    EXPECT_TRUE(kv_.blocks(upper).empty());
    EXPECT_EQ(kv_.tokens(upper), 5);
    ASSERT_TRUE(kv_.extend(1));
    EXPECT_EQ(begins(kv_, upper), (Numbers{5, 6}));
}

TEST_F(ThreeRounds, AHiddenRoundKeepsItsBlocksAndIsSeenAgain) {
    const Numbers before(kv_.blocks(upper).begin(), kv_.blocks(upper).end());
    kv_.hide_rounds(upper, both);
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 18}));
    EXPECT_EQ(begins(kv_, lower), (Numbers{0, 16, 20, 25, 41, 43}));
    EXPECT_FALSE(kv_.is_whole());
    EXPECT_EQ(pool_->blocks_free(upper), 3U) << "none went back";
    ASSERT_TRUE(kv_.extend(16));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 32, 34}));
    kv_.show_rounds();
    EXPECT_EQ(begins(kv_, upper), begins(kv_, lower));
    EXPECT_TRUE(kv_.is_whole());
    EXPECT_EQ(Numbers(kv_.blocks(upper).begin(), kv_.blocks(upper).begin() + 5), before);
    EXPECT_EQ(kv_.round_begin(upper, 2), 25);
    kv_.show_rounds();
    EXPECT_TRUE(kv_.is_whole());
}

TEST_F(ThreeRounds, OthersMayBeHiddenInTheirPlace) {
    kv_.hide_rounds(upper, std::span(both).first(1));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 5, 21, 23}));
    kv_.hide_rounds(upper, std::span(both).last(1));
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 16, 20, 36, 38}));
    EXPECT_EQ(kv_.round_begin(upper, 2), 20);
    SequenceKv shared = kv_.share();
    EXPECT_EQ(begins(shared, upper), begins(kv_, upper));
    kv_.hide_rounds(upper, {});
    EXPECT_TRUE(kv_.is_whole());
    shared.show_rounds();
    EXPECT_TRUE(shared.is_whole()) << "for reading, whatever becomes of the other";
    EXPECT_EQ(Numbers(shared.blocks(upper).begin(), shared.blocks(upper).end()),
              Numbers(kv_.blocks(upper).begin(), kv_.blocks(upper).end()));
}

TEST_F(ThreeRounds, WhatIsHiddenGoesWithTheSequence) {
    kv_.hide_rounds(upper, std::span(both).first(1));
    kv_ = SequenceKv(*pool_);
    EXPECT_EQ(pool_->blocks_free(upper), 8U);
}

TEST_F(ThreeRounds, AHiddenRoundThatIsReleasedIsNotSeenAgain) {
    kv_.hide_rounds(upper, std::span(both).first(1));
    kv_.release_round(upper, 0);
    EXPECT_EQ(pool_->blocks_free(upper), 5U);
    kv_.show_rounds();
    EXPECT_FALSE(kv_.holds(upper, 0));
    ASSERT_TRUE(kv_.take_round(upper, 0));
    EXPECT_TRUE(kv_.is_whole());
}

/// A cut within the last round leaves hidden what is; one that reaches a hidden round shows all first.
TEST_F(ThreeRounds, HiddenRoundsAreCutAsOthers) {
    kv_.hide_rounds(upper, both);
    kv_.set_back(30);
    EXPECT_EQ(begins(kv_, upper), (Numbers{0, 5}));
    ASSERT_TRUE(kv_.extend(3));
    for (const int64_t tokens : {22, 20, 3}) {
        kv_.truncate(tokens);
        EXPECT_TRUE(kv_.is_whole()) << tokens;
        EXPECT_EQ(begins(kv_, upper), begins(kv_, lower)) << tokens;
    }
    EXPECT_EQ(pool_->blocks_free(upper), 6U) << "one is set aside";
}

TEST_F(ThreeRounds, ACutAtTheEndOfAHiddenRoundShowsIt) {
    kv_.hide_rounds(upper, std::span(both).last(1));
    kv_.truncate(25);
    EXPECT_TRUE(kv_.is_whole());
    EXPECT_EQ(kv_.tokens(upper), 25);
}

/// A long context of the shortest rounds there are.
TEST(SequenceGroups, ThousandsOfRoundsAreHiddenAndSeenAgain) {
    constexpr int64_t rounds = 10'000;
    FakeDevice device;
    const auto pool = two_group_pool(device, 2 * rounds, 2 * rounds);
    SequenceKv kv(*pool);
    for (int64_t round = 0; round < rounds; ++round) {
        kv.begin_round();
        ASSERT_TRUE(kv.extend(1 + round % 40));
    }
    const Numbers before = begins(kv, upper), blocks(kv.blocks(upper).begin(), kv.blocks(upper).end());
    std::vector<int64_t> some;
    for (int64_t round = 1; round + 1 < rounds; ++round)
        if (round % 10 != 0) some.push_back(round);
    kv.hide_rounds(upper, some);
    EXPECT_EQ(kv.tokens(upper),
              kv.tokens() - std::accumulate(some.begin(), some.end(), int64_t{0},
                                            [](int64_t sum, int64_t round) { return sum + 1 + round % 40; }));
    SequenceKv shared = kv.share();
    kv.show_rounds();
    shared.show_rounds();
    EXPECT_EQ(begins(shared, upper), before);
    EXPECT_EQ(begins(kv, upper), before);
    EXPECT_EQ(Numbers(kv.blocks(upper).begin(), kv.blocks(upper).end()), blocks);
    EXPECT_TRUE(kv.is_whole());
}

/// As a conversation that comes back: its rounds are known, and each group gets those that it needs.
TEST(SequenceGroups, RoundsThatLieElsewhereComeBackGroupByGroup) {
    FakeDevice device;
    const auto pool = two_group_pool(device, 8, 2);
    SequenceKv kv(*pool);
    for (const int64_t round : {40, 20, 17}) ASSERT_TRUE(kv.append_round(round));
    EXPECT_EQ(kv.tokens(), 77);
    EXPECT_EQ(kv.tokens(lower) + kv.tokens(upper), 0);
    EXPECT_EQ(pool->blocks_free(lower) + pool->blocks_free(upper), 10U);
    for (const int64_t round : {2, 0, 1}) ASSERT_TRUE(kv.take_round(lower, round));
    EXPECT_EQ(begins(kv, lower), (Numbers{0, 16, 32, 40, 56, 60, 76, 77}));
    ASSERT_FALSE(kv.take_round(upper, 0));
    ASSERT_TRUE(kv.take_round(upper, 1));
    EXPECT_EQ(begins(kv, upper), (Numbers{0, 16, 20}));
    kv.release_round(upper, 1);
    ASSERT_TRUE(kv.take_round(upper, 2));
    EXPECT_EQ(begins(kv, upper), (Numbers{0, 16, 17}));
    EXPECT_EQ(kv.slot(upper, 60), kv.blocks(upper)[0] * 16);
}

TEST(SequenceGroups, RefusesRoundsOutOfRange) {
    FakeDevice device;
    const auto pool = two_group_pool(device, 4, 4);
    SequenceKv kv(*pool);
    for (const int64_t tokens : {int64_t{-1}, int64_t{0}, int64_t{1} << 40})
        EXPECT_EQ(kv.append_round(tokens).error().code, ErrorCode::out_of_range) << tokens;
    EXPECT_EQ(kv.rounds(), 0);
}

/// Whichever group has fewer blocks: nothing is half taken when it has no more.
TEST(SequenceGroups, WhereOneGroupIsExhaustedTheOtherGivesBackWhatItGave) {
    for (const LayerGroup small : layer_groups) {
        FakeDevice device;
        const auto pool = small == lower ? two_group_pool(device, 3, 100) : two_group_pool(device, 100, 3);
        const LayerGroup large = small == lower ? upper : lower;
        SequenceKv kv(*pool);
        ASSERT_TRUE(kv.extend(20));
        EXPECT_EQ(kv.set_aside(45).error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(kv.extend(45).error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(kv.blocks_set_aside(large), 0);
        EXPECT_EQ(pool->blocks_free(large), 98U);
        EXPECT_EQ(pool->blocks_free(small), 1U);
        ASSERT_TRUE(kv.set_aside(28));
        EXPECT_EQ(kv.blocks_set_aside(small), 1);
        EXPECT_EQ(kv.set_aside(29).error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(kv.blocks_set_aside(large), 1) << "what was set aside before stays";
        EXPECT_EQ(pool->blocks_free(large), 97U);
        ASSERT_TRUE(kv.extend(28));
        EXPECT_EQ(kv.tokens(small), 48);
    }
}

}  // namespace
}  // namespace rondo
