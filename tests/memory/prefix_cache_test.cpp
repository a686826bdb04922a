#include "memory/prefix_cache.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/memory/fake_device.hpp"

namespace rondo {
namespace {

using testing::FakeDevice;

class PrefixCacheTest : public ::testing::Test {
protected:
    PrefixCacheTest() {
        const KvShape shape{.layers = 3, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
        pool = std::move(KvPool::create(device, shape, 32)).value();
        cache = std::make_unique<PrefixCache>(*pool);
    }

    static std::vector<int32_t> ids(int64_t count, int32_t first = 0) {
        std::vector<int32_t> all(static_cast<size_t>(count));
        std::iota(all.begin(), all.end(), first);
        return all;
    }
    SequenceKv computed(int64_t tokens) {
        SequenceKv kv(*pool);
        EXPECT_TRUE(kv.extend(tokens).is_ok());
        return kv;
    }
    size_t free() const { return pool->blocks_free(LayerGroup::upper); }

    FakeDevice device;
    std::unique_ptr<KvPool> pool;
    std::unique_ptr<PrefixCache> cache;
};

TEST_F(PrefixCacheTest, FindsTheLongestBeginningInWholeBlocks) {
    cache->insert("t", ids(40), computed(40));
    EXPECT_EQ(cache->blocks(), 3);
    std::vector<int32_t> other = ids(40);
    other[35] = -7;
    EXPECT_EQ(cache->match("t", other, 40).tokens(), 32);
    EXPECT_EQ(cache->match("t", ids(100), 100).tokens(), 40);
    EXPECT_EQ(cache->match("t", ids(40), 39).tokens(), 32);
    EXPECT_EQ(cache->match("t", ids(10), 10).tokens(), 0);
    EXPECT_EQ(cache->match("u", ids(40), 40).tokens(), 0);
}

TEST_F(PrefixCacheTest, ASequenceThatGoesOnWritesToItsOwnBlocks) {
    cache->insert("t", ids(20), computed(20));
    SequenceKv kv = cache->match("t", ids(60), 60);
    ASSERT_EQ(kv.tokens(), 20);
    ASSERT_TRUE(kv.extend(5).is_ok());
    const auto blocks = kv.blocks(LayerGroup::upper);
    ASSERT_EQ(blocks.size(), 3U);
    EXPECT_EQ(pool->references(LayerGroup::upper, blocks[1]), 2);
    EXPECT_EQ(pool->references(LayerGroup::upper, blocks[2]), 1);
    kv.truncate(18);  // inside what is shared: the next keys must not go there
    ASSERT_TRUE(kv.extend(1).is_ok());
    EXPECT_EQ(pool->references(LayerGroup::upper, kv.blocks(LayerGroup::upper)[2]), 1);
}

TEST_F(PrefixCacheTest, TheSameTokensInOtherRoundsAreFoundByTheLongerWay) {
    SequenceKv rounds(*pool);
    ASSERT_TRUE(rounds.extend(5).is_ok());
    rounds.begin_round();
    ASSERT_TRUE(rounds.extend(45).is_ok());
    cache->insert("t", ids(16), computed(16));
    cache->insert("t", ids(50), rounds);
    EXPECT_EQ(cache->match("t", ids(60), 60).tokens(), 50);
}

TEST_F(PrefixCacheTest, KeepsOneCopyOfWhatIsComputedTwice) {
    cache->insert("t", ids(40), computed(40));
    cache->insert("t", ids(40), computed(40));
    EXPECT_EQ(cache->blocks(), 3);
    EXPECT_EQ(free(), 29U);
}

TEST_F(PrefixCacheTest, WhatGoesOnIsSharedButForItsLastBlock) {
    const SequenceKv going_on = computed(40);
    cache->insert_full("t", ids(40), going_on);
    EXPECT_EQ(cache->blocks(), 2);
    EXPECT_EQ(cache->match("t", ids(40), 40).tokens(), 32);
}

TEST_F(PrefixCacheTest, MakesRoomFromWhatWasUsedLongestAgo) {
    cache->insert("t", ids(32, 1000), computed(32));
    cache->insert("t", ids(32, 2000), computed(32));
    EXPECT_EQ(cache->match("t", ids(32, 1000), 32).tokens(), 32);  // used again
    EXPECT_TRUE(cache->make_room(30));
    EXPECT_EQ(cache->match("t", ids(32, 2000), 32).tokens(), 0);
    EXPECT_EQ(cache->match("t", ids(32, 1000), 32).tokens(), 32);
    EXPECT_EQ(cache->evictions(), 2);
}

TEST_F(PrefixCacheTest, NeverGivesUpWhatASequenceHolds) {
    cache->insert("t", ids(64), computed(64));
    const SequenceKv held = cache->match("t", ids(40), 40);
    ASSERT_EQ(held.tokens(), 32);
    EXPECT_TRUE(cache->make_room(30));
    EXPECT_EQ(free(), 30U);
    EXPECT_FALSE(cache->make_room(31));
    EXPECT_EQ(cache->blocks_unused(), 0);
    EXPECT_EQ(held.blocks(LayerGroup::lower).size(), 2U);
}

TEST_F(PrefixCacheTest, KeepsEverythingWhenTheRoomCannotBeMade) {
    cache->insert("t", ids(64), computed(64));
    const SequenceKv held = cache->match("t", ids(40), 40);
    EXPECT_EQ(cache->blocks_unused(), 2);
    EXPECT_FALSE(cache->make_room(31));
    EXPECT_EQ(cache->match("t", ids(64), 64).tokens(), 64);
    EXPECT_EQ(cache->evictions(), 0);
    EXPECT_TRUE(cache->make_room(30));
}

/// As an answer by a window does: it holds the end of its prompt, on whose beginning nobody else has a claim.
/// What is held frees nothing, so it is forgotten only where nothing else makes room, however long it was not asked
/// for.
TEST_F(PrefixCacheTest, WhatNobodyHoldsGoesBeforeWhatAWindowStandsOn) {
    cache->insert("t", ids(160), computed(160));
    SequenceKv window = cache->match("t", ids(160), 160);
    window.release_before(120);
    cache->insert("t", ids(48, 1000), computed(48));
    const auto before = static_cast<int64_t>(free());
    EXPECT_TRUE(cache->make_room(before + 2));
    EXPECT_EQ(cache->evictions(), 2);
    EXPECT_EQ(cache->match("t", ids(160), 160).tokens(), 160);
    EXPECT_EQ(cache->match("t", ids(48, 1000), 48).tokens(), 16);
}

TEST_F(PrefixCacheTest, WhatASequenceGaveUpMakesRoomThoughItHoldsTheEnd) {
    cache->insert("t", ids(160), computed(160));
    cache->insert("t", ids(48, 1000), computed(48));
    SequenceKv other = cache->match("t", ids(48, 1000), 48);
    SequenceKv window = cache->match("t", ids(160), 160);
    ASSERT_EQ(window.tokens(), 160);
    window.release_before(120);  // inside the eighth block of ten: three are held
    EXPECT_EQ(cache->blocks_unused(), 7);
    const auto before = static_cast<int64_t>(free());
    EXPECT_TRUE(cache->make_room(before + 7));
    EXPECT_EQ(static_cast<int64_t>(free()), before + 7);
    EXPECT_EQ(cache->evictions(), 7);
    EXPECT_FALSE(cache->make_room(before + 8)) << "the others are held";
    EXPECT_EQ(cache->match("t", ids(160), 160).tokens(), 0);
    EXPECT_EQ(cache->match("t", ids(48, 1000), 48).tokens(), 48) << "what a whole sequence holds is not forgotten";
    for (const int32_t block : window.blocks(LayerGroup::upper))
        EXPECT_EQ(pool->references(LayerGroup::upper, block), 1) << "its own now";
    window = SequenceKv(*pool);
    EXPECT_EQ(static_cast<int64_t>(free()), before + 10);
}

TEST_F(PrefixCacheTest, ForgetsNoMoreThanItMust) {
    cache->insert("t", ids(160), computed(160));
    cache->insert("t", ids(64, 1000), computed(64));
    SequenceKv window = cache->match("t", ids(160), 160);
    window.release_before(120);
    // The other one's four blocks are nobody's.
    EXPECT_TRUE(cache->make_room(static_cast<int64_t>(free()) + 4));
    EXPECT_EQ(cache->match("t", ids(160), 160).tokens(), 160);
}

/// What turns that wait will need.
class ClaimsTest : public PrefixCacheTest {
protected:
    /// A conversation of 64 tokens, kept.
    static std::vector<int32_t> talk(int32_t number) { return ids(64, 1000 * number); }
    void keep(int32_t number) { cache->insert("t", talk(number), computed(64)); }
    int64_t known(int32_t number) { return cache->match("t", talk(number), 64).tokens(); }
    bool make_room(int64_t more) { return cache->make_room(static_cast<int64_t>(free()) + more); }
};

TEST_F(ClaimsTest, WhatIsClaimedGoesLastHoweverLongAgoItWasUsed) {
    for (const int32_t number : {1, 2, 3}) keep(number);
    cache->claim(7, "t", talk(1));
    EXPECT_EQ(cache->claimed(7), 64);
    ASSERT_TRUE(make_room(8));
    EXPECT_EQ(known(1), 64);
    EXPECT_EQ(known(2) + known(3), 0);
    ASSERT_TRUE(make_room(1)) << "a claim holds nothing";
    EXPECT_EQ(cache->claimed(7), 48);
}

TEST_F(ClaimsTest, OfClaimedBlocksThoseGoFirstThatAreNeededLast) {
    for (const int32_t number : {1, 2, 3}) {
        keep(number);
        cache->claim(static_cast<uint64_t>(number), "t", talk(number));
    }
    const std::vector<uint64_t> order{3, 1, 2};
    cache->order_claims(order);
    ASSERT_TRUE(make_room(5));
    EXPECT_EQ(cache->claimed(2), 0) << "all of one goes before any of the next";
    EXPECT_EQ(cache->claimed(1), 48);
    EXPECT_EQ(cache->claimed(3), 64);
    const std::vector<uint64_t> other{1};
    cache->order_claims(other);
    ASSERT_TRUE(make_room(4));
    EXPECT_EQ(cache->claimed(3), 0) << "nobody says any more when it is served";
    EXPECT_EQ(cache->claimed(1), 48);
}

TEST_F(ClaimsTest, WhatSeveralClaimStaysForTheSakeOfTheNearest) {
    std::vector<int32_t> fork = talk(1);
    for (size_t i = 32; i < fork.size(); ++i) fork[i] += 500;
    keep(1);
    SequenceKv forked = cache->match("t", fork, 64);
    ASSERT_EQ(forked.tokens(), 32);
    ASSERT_TRUE(forked.extend(32).is_ok());
    cache->insert("t", fork, forked);
    forked = SequenceKv(*pool);
    cache->claim(1, "t", talk(1));
    cache->claim(2, "t", fork);
    const std::vector<uint64_t> order{2, 1};
    cache->order_claims(order);
    ASSERT_TRUE(make_room(3));
    EXPECT_EQ(cache->claimed(1), 32);
    EXPECT_EQ(cache->claimed(2), 48);
    ASSERT_TRUE(make_room(3));
    EXPECT_EQ(cache->claimed(1), 0);
    EXPECT_EQ(cache->claimed(2), 0);
    EXPECT_EQ(cache->blocks(), 0);
}

TEST_F(ClaimsTest, AClaimFollowsWhatIsStored) {
    cache->claim(1, "t", ids(50));
    cache->claim(2, "u", ids(50));
    EXPECT_EQ(cache->claimed(1), 0);
    const SequenceKv going_on = computed(40);
    cache->insert_full("t", ids(40), going_on);
    EXPECT_EQ(cache->claimed(1), 32);
    cache->insert("t", ids(40), going_on);
    EXPECT_EQ(cache->claimed(1), 40);
    EXPECT_EQ(cache->claimed(2), 0) << "another's";
    cache->insert("t", ids(64), computed(64));
    EXPECT_EQ(cache->match("t", ids(50), 50).tokens(), 48) << "the same tokens in other rounds";
    cache->forget_claim(1);
    EXPECT_EQ(cache->claimed(1), 0);
    EXPECT_EQ(cache->claims(), 1);
    cache->claim(1, "t", ids(50));
    EXPECT_EQ(cache->claimed(1), 48);
}

TEST_F(ClaimsTest, SaysWhetherOthersWouldDo) {
    for (const int32_t number : {1, 2, 3}) keep(number);
    const auto before = static_cast<int64_t>(free());
    cache->claim(7, "t", talk(1));
    EXPECT_TRUE(cache->could_spare_claims(before + 8));
    EXPECT_FALSE(cache->could_spare_claims(before + 9));
    const SequenceKv held = cache->match("t", talk(2), 64);
    EXPECT_FALSE(cache->could_spare_claims(before + 5));
    cache->forget_claim(7);
    EXPECT_TRUE(cache->could_spare_claims(before + 8));
    cache->claim(8, "t", ids(80, 1000));
    EXPECT_FALSE(cache->could_spare_claims(before + 5));
    SequenceKv longer = cache->match("t", talk(1), 64);
    ASSERT_TRUE(longer.extend(16).is_ok());
    cache->insert("t", ids(80, 1000), longer);
    longer = SequenceKv(*pool);
    EXPECT_EQ(cache->claimed(8), 80);
    EXPECT_TRUE(cache->could_spare_claims(before + 3));
    EXPECT_FALSE(cache->could_spare_claims(before + 4)) << "the claim has gone on to the new block";
}

TEST_F(ClaimsTest, OnlyWhatNobodyHoldsCanBeLost) {
    keep(1);
    cache->claim(1, "t", talk(1));
    EXPECT_TRUE(cache->could_lose(1, 64));
    EXPECT_FALSE(cache->could_lose(1, 65));
    const SequenceKv held = cache->match("t", talk(1), 32);
    EXPECT_TRUE(cache->could_lose(1, 32));
    EXPECT_FALSE(cache->could_lose(1, 33)) << "the first two blocks stay whatever happens";
    EXPECT_FALSE(cache->could_lose(2, 1)) << "nobody's claim";
}

}  // namespace
}  // namespace rondo
