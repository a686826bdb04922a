#include "memory/store/way_back.hpp"

#include <gtest/gtest.h>

#include "tests/memory/sequence_pool.hpp"

namespace rondo {
namespace {

using testing::FakeDevice;
using testing::make_sequence_pool;

WayBack::Round stored(int64_t first, int count, Exactness exactness) {
    WayBack::Round round;
    round.stored.first_token = first;
    round.stored.ids.resize(static_cast<size_t>(count));
    round.stored.end.exactness = exactness;
    return round;
}

/// A turn of a method that computes exactly itself may find what another one has left keys out of.
TEST(WayBack, WhatIsComputedBehindWhatIsNotExactIsNotEither) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 24);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(16));
    kv.go_on_inexactly(60);  // behind its prompt
    const WayBack way{{stored(16, 16, Exactness::exact), stored(32, 16, Exactness::sparse)}, 16, 48};
    ASSERT_TRUE(grow_for(kv, way, 44));
    EXPECT_EQ(kv.exact_tokens(), 32);
    ASSERT_TRUE(kv.extend(12));
    EXPECT_EQ(kv.exact_tokens(), 32);
}

/// Rounds of one token each: a block a token.
TEST(WayBack, LeadsToNoMoreBlocksThanItMay) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 24);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(40));
    WayBack way{{}, 40, 60};
    for (int i = 0; i < 20; ++i) way.rounds.push_back(stored(40 + i, 1, Exactness::exact));
    keep_within(way, kv, 10);
    EXPECT_EQ(way.rounds.size(), 7U) << "three blocks were there";
    EXPECT_EQ(way.end, 47);
    keep_within(way, kv, 100);
    EXPECT_EQ(way.end, 47);
    way.rounds[0].stored.ids.resize(32);
    way.rounds[0].known_blocks = 1;
    way.rounds.resize(1);
    way.rounds[0].stored.first_token = 24;
    keep_within(way, kv, 4);
    EXPECT_EQ(way.end, 56);
    keep_within(way, kv, 3);
    EXPECT_TRUE(way.rounds.empty());
    EXPECT_EQ(way.end, way.begin);
}

TEST(WayBack, WhatIsExactLeavesTheRestAsItIs) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 24);
    SequenceKv kv(*pool);
    const WayBack way{{stored(0, 16, Exactness::exact), stored(16, 16, Exactness::exact)}, 0, 32};
    kv.go_on_inexactly(40);
    ASSERT_TRUE(grow_for(kv, way, 60));
    ASSERT_TRUE(kv.extend(28));
    EXPECT_EQ(kv.exact_tokens(), 40);
}

std::vector<StoredRound> rounds_of(std::initializer_list<int> sizes) {
    std::vector<StoredRound> rounds;
    int64_t first = 0;
    for (const int size : sizes) {
        rounds.push_back(stored(first, size, Exactness::exact).stored);
        first += size;
    }
    return rounds;
}

/// What a short completion has left in the pool ends within a block of what is stored.
TEST(WayBack, ABeginningThatWasCutOtherwiseHidesNothing) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 48);
    SequenceKv known(*pool);
    ASSERT_TRUE(known.extend(49));
    SequenceKv kv = known.beginning(49, {});
    ASSERT_TRUE(kv.set_aside(252));
    WayBack way = way_back(rounds_of({300}), kv, pool->shape());
    ASSERT_EQ(way.rounds.size(), 1U);
    EXPECT_EQ(way.begin, 48);
    EXPECT_EQ(way.end, 300);
    EXPECT_EQ(way.rounds[0].known_blocks, 3);
    ASSERT_TRUE(grow_for(kv, way, 252));
    EXPECT_EQ(kv.tokens(), 300);
    EXPECT_EQ(kv.exact_tokens(), 300);
    for (const LayerGroup group : layer_groups) {
        EXPECT_EQ(kv.blocks(group).size(), 19U);
        EXPECT_EQ(kv.blocks(group)[2], known.blocks(group)[2]) << "shared";
        EXPECT_NE(kv.blocks(group)[3], known.blocks(group)[3]) << "nobody else's, for it is written";
        EXPECT_EQ(kv.blocks_set_aside(group), 1) << "for the next token";
    }
    EXPECT_EQ(known.tokens(), 49);
}

TEST(WayBack, AnotherBeginningLeavesTheRestAsExactAsItWouldBe) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 48);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(49));
    kv.begin_round();
    kv.go_on_inexactly(340);  // behind its prompt
    ASSERT_TRUE(kv.set_aside(300));
    const WayBack way = way_back(rounds_of({300}), kv, pool->shape());
    ASSERT_EQ(way.begin, 48);
    ASSERT_TRUE(grow_for(kv, way, 300));
    ASSERT_TRUE(kv.extend(49));
    EXPECT_EQ(kv.exact_tokens(), 340);
}

TEST(WayBack, GoesBackToWhereBlocksAreThoseOfTheRound) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 48);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(49));
    const auto begin_of = [&](std::initializer_list<int> sizes) {
        const WayBack way = way_back(rounds_of(sizes), kv, pool->shape());
        return way.rounds.empty() ? int64_t{-1} : way.begin;
    };
    EXPECT_EQ(begin_of({49, 100}), 49) << "nothing is given up";
    EXPECT_EQ(begin_of({30, 200}), 16) << "the second one begins within a block";
    EXPECT_EQ(begin_of({16, 10, 200}), 16);
    EXPECT_EQ(begin_of({5, 200}), 0);
    EXPECT_EQ(begin_of({5, 60}), -1) << "49 tokens for 16";
    EXPECT_EQ(begin_of({50}), -1) << "one for one";
    EXPECT_EQ(begin_of({51}), 48);
    EXPECT_EQ(begin_of({49}), -1);
    EXPECT_EQ(begin_of({20, 20}), -1);
    EXPECT_EQ(begin_of({}), -1);
}

TEST(WayBack, WithoutBlocksItStaysAsItWas) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 10);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(49));
    ASSERT_TRUE(kv.set_aside(40));
    const std::vector<int64_t> ends{60};
    kv.plan_rounds(ends);
    const WayBack way = way_back(rounds_of({300}), kv, pool->shape());
    EXPECT_FALSE(grow_for(kv, way, 252));
    EXPECT_EQ(kv.tokens(), 49);
    EXPECT_EQ(kv.planned_ends(), ends);
    EXPECT_TRUE(kv.extend(40)) << "its blocks are set aside as before";
    WayBack short_way = way_back(rounds_of({300}), kv, pool->shape());
    keep_within(short_way, kv, 5);
    EXPECT_TRUE(short_way.rounds.empty());
    EXPECT_EQ(short_way.begin, kv.tokens());
}

}  // namespace
}  // namespace rondo
