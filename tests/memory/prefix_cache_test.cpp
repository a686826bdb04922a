#include "memory/prefix_cache.hpp"

#include <random>

#include "tests/memory/prefix_cache_fixture.hpp"

namespace rondo {
namespace {

using testing::PrefixCacheTest;

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

/// More blocks than any search that goes astray may try.
TEST_F(PrefixCacheTest, FindsAContextOfAnyLength) {
    constexpr int64_t blocks = 70'000;
    cache.reset();
    const KvShape shape{.layers = 2, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    pool = std::move(KvPool::create(device, shape, {blocks, blocks})).value();
    cache = std::make_unique<PrefixCache>(*pool);
    const std::vector<int32_t> all = ids(blocks * kv_block_tokens);
    cache->insert("t", all, computed(std::ssize(all)));
    EXPECT_EQ(cache->match("t", all, std::ssize(all)).tokens(), std::ssize(all));
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

TEST_F(PrefixCacheTest, ForgetsFromTheEndAsFarAsNobodyElseNeedsIt) {
    std::vector<int32_t> other = ids(40);
    other[20] = -7;  // parts after a block
    cache->insert("t", ids(40), computed(40));
    cache->insert("t", other, computed(40));
    SequenceKv sparse = cache->match({"t", "sparse"}, ids(40), 32);
    sparse.go_on_inexactly();
    ASSERT_TRUE(sparse.extend(8));
    cache->insert({"t", "sparse"}, ids(40), sparse);
    sparse = SequenceKv(*pool);
    cache->insert("tt", ids(40), computed(40));
    EXPECT_EQ(cache->spaces_of("t"), (std::vector<PrefixSpace>{{"t"}, {"t", "sparse"}}));
    EXPECT_EQ(cache->forget("t", ids(40)), 8 + 24) << "the first block is the other one's too";
    EXPECT_EQ(cache->match("t", other, 40).tokens(), 40);
    EXPECT_EQ(cache->forget("t", ids(40)), 0);
    {
        const SequenceKv held = cache->match("t", other, 40);
        EXPECT_EQ(cache->forget("t", other), 0) << "somebody holds it";
        EXPECT_EQ(cache->match("t", other, 40).tokens(), 0);
        cache->insert("t", other, held);
    }
    cache->claim(1, "t", other);
    EXPECT_EQ(cache->forget("t", other), 0);
    cache->forget_claim(1);
    EXPECT_EQ(cache->forget("t", other), 40);
    EXPECT_TRUE(cache->spaces_of("t").empty());
    EXPECT_EQ(cache->forget("nobody", ids(40)), 0);
}

TEST_F(PrefixCacheTest, ForgetsEveryCutOfTheSameTokens) {
    SequenceKv rounds(*pool);
    ASSERT_TRUE(rounds.extend(5).is_ok());
    rounds.begin_round();
    ASSERT_TRUE(rounds.extend(45).is_ok());
    cache->insert("t", ids(32), computed(32));
    cache->insert("t", ids(50), rounds);
    rounds = SequenceKv(*pool);
    EXPECT_EQ(cache->forget("t", ids(50)), 82);
    EXPECT_EQ(cache->blocks(), 0);
    EXPECT_EQ(free(), 32U);
}

/// What hangs behind its conversation's tokens: a round that was taken back, tokens that nobody was told.
TEST_F(PrefixCacheTest, ForgetsWhatAnOwnerTurnedAwayFrom) {
    const auto behind = [](std::vector<int32_t> all, int32_t first) {
        const std::vector<int32_t> more = ids(24, first);
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    cache->insert("t", ids(32), computed(32), 1);
    for (const int32_t first : {1000, 2000}) {
        SequenceKv taken_back = cache->match("t", ids(32), 32);
        ASSERT_TRUE(taken_back.extend(24).is_ok());
        cache->insert("t", behind(ids(32), first), taken_back, 1);
    }
    SequenceKv forked = cache->match("t", ids(32), 32);
    ASSERT_TRUE(forked.extend(24).is_ok());
    cache->insert("t", behind(ids(32), 3000), forked, 2);
    forked = SequenceKv(*pool);
    EXPECT_EQ(cache->blocks(), 8);
    EXPECT_EQ(cache->forget("t", ids(32), 1), 48);
    EXPECT_EQ(cache->match("t", behind(ids(32), 3000), 56).tokens(), 56) << "the other one's hangs on the first's";
    EXPECT_EQ(cache->forget("t", ids(32), 1), 0);
    EXPECT_EQ(cache->forget("t", behind(ids(32), 3000), 2), 56);
    EXPECT_EQ(free(), 32U);
    EXPECT_EQ(cache->tenants(), 0);
}

TEST_F(PrefixCacheTest, MakesRoomFromWhatWasUsedLongestAgo) {
    cache->insert("t", ids(32, 1000), computed(32));
    cache->insert("t", ids(32, 2000), computed(32));
    EXPECT_EQ(cache->match("t", ids(32, 1000), 32).tokens(), 32);  // used again
    EXPECT_TRUE(cache->make_room({30, 30}));
    EXPECT_EQ(cache->match("t", ids(32, 2000), 32).tokens(), 0);
    EXPECT_EQ(cache->match("t", ids(32, 1000), 32).tokens(), 32);
    EXPECT_EQ(cache->evictions(), 2);
}

TEST_F(PrefixCacheTest, NeverGivesUpWhatASequenceHolds) {
    cache->insert("t", ids(64), computed(64));
    const SequenceKv held = cache->match("t", ids(40), 40);
    ASSERT_EQ(held.tokens(), 32);
    EXPECT_TRUE(cache->make_room({30, 30}));
    EXPECT_EQ(free(), 30U);
    EXPECT_FALSE(cache->make_room({31, 31}));
    EXPECT_EQ(cache->blocks_unused(), 0);
    EXPECT_EQ(held.blocks(LayerGroup::lower).size(), 2U);
}

TEST_F(PrefixCacheTest, KeepsEverythingWhenTheRoomCannotBeMade) {
    cache->insert("t", ids(64), computed(64));
    const SequenceKv held = cache->match("t", ids(40), 40);
    EXPECT_EQ(cache->blocks_unused(), 2);
    EXPECT_FALSE(cache->make_room({31, 31}));
    EXPECT_EQ(cache->match("t", ids(64), 64).tokens(), 64);
    EXPECT_EQ(cache->evictions(), 0);
    EXPECT_TRUE(cache->make_room({30, 30}));
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
    EXPECT_TRUE(cache->make_room({before + 2, before + 2}));
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
    EXPECT_TRUE(cache->make_room({before + 7, before + 7}));
    EXPECT_EQ(static_cast<int64_t>(free()), before + 7);
    EXPECT_EQ(cache->evictions(), 7);
    EXPECT_FALSE(cache->make_room({before + 8, before + 8})) << "the others are held";
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
    EXPECT_TRUE(cache->make_room(pool->shape().blocks_of_each(static_cast<int64_t>(free()) + 4)));
    EXPECT_EQ(cache->match("t", ids(160), 160).tokens(), 160);
}

/// Blocks of the group that has fewer are what others have to make room for.
TEST_F(PrefixCacheTest, MakesRoomByEachGroupsOwnNumber) {
    const KvShape shape{.layers = 2, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    const auto uneven = std::move(KvPool::create(device, shape, {20, 6})).value();
    PrefixCache small(*uneven);
    for (const int32_t number : {1, 2}) {
        SequenceKv kv(*uneven);
        ASSERT_TRUE(kv.extend(48).is_ok());
        small.insert("t", ids(48, 1000 * number), kv);
    }
    EXPECT_TRUE(small.make_room({14, 0}));
    EXPECT_EQ(small.evictions(), 0);
    EXPECT_FALSE(small.make_room({0, 7})) << "there are no more";
    EXPECT_EQ(small.evictions(), 0);
    EXPECT_TRUE(small.make_room({14, 2}));
    EXPECT_EQ(small.evictions(), 2);
    EXPECT_TRUE(small.make_room({17, 2}));
    EXPECT_EQ(small.evictions(), 3);
}

/// Over random use, what goes is what a list of the uses says: leaves first, of those the one used longest ago.
TEST_F(PrefixCacheTest, EvictsInOrderOfUse) {
    constexpr int talks = 10;
    for (uint32_t seed = 1; seed <= 50; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        PrefixCache used(*pool);
        std::vector<int> order;  // talks, the one used longest ago first
        std::vector<int64_t> blocks(talks, 0);
        for (int step = 0; step < 60; ++step) {
            const int talk = static_cast<int>(random() % talks);
            const auto known = ids(48, 1000 * (talk + 1));
            if (SequenceKv kv = used.match("t", known, 48); kv.tokens() < 48) {
                if (!kv.extend(48 - kv.tokens()).is_ok()) continue;
                used.insert("t", known, kv);
                blocks[static_cast<size_t>(talk)] = 3;
            }
            std::erase(order, talk);
            order.push_back(talk);
            if (random() % 4 != 0) continue;
            auto goes = static_cast<int64_t>(random() % 8);
            const auto room = static_cast<int64_t>(free()) + goes;
            if (goes > used.blocks()) continue;
            ASSERT_TRUE(used.make_room({room, room}));
            for (const int oldest : order)
                for (int64_t& left = blocks[static_cast<size_t>(oldest)]; left > 0 && goes > 0; --goes) --left;
            std::erase_if(order, [&](int gone) { return blocks[static_cast<size_t>(gone)] == 0; });
            for (int each = 0; each < talks; ++each)
                ASSERT_EQ(std::ssize(used.kept("t", ids(48, 1000 * (each + 1)))), blocks[static_cast<size_t>(each)]);
        }
    }
}

}  // namespace
}  // namespace rondo
