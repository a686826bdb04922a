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

}  // namespace
}  // namespace rondo
