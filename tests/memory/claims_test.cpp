#include "tests/memory/prefix_cache_fixture.hpp"

namespace rondo {
namespace {

using testing::PrefixCacheTest;

/// What turns that wait will need.
class ClaimsTest : public PrefixCacheTest {
protected:
    /// A conversation of 64 tokens, kept.
    static std::vector<int32_t> talk(int32_t number) { return ids(64, 1000 * number); }
    void keep(int32_t number) { cache->insert("t", talk(number), computed(64)); }
    int64_t known(int32_t number) { return cache->match("t", talk(number), 64).tokens(); }
    bool make_room(int64_t more) {
        return cache->make_room(pool->shape().blocks_of_each(static_cast<int64_t>(free()) + more));
    }
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
    EXPECT_TRUE(cache->could_spare_claims({before + 8, before + 8}));
    EXPECT_FALSE(cache->could_spare_claims({before + 9, before + 9}));
    const SequenceKv held = cache->match("t", talk(2), 64);
    EXPECT_FALSE(cache->could_spare_claims({before + 5, before + 5}));
    cache->forget_claim(7);
    EXPECT_TRUE(cache->could_spare_claims({before + 8, before + 8}));
    cache->claim(8, "t", ids(80, 1000));
    EXPECT_FALSE(cache->could_spare_claims({before + 5, before + 5}));
    SequenceKv longer = cache->match("t", talk(1), 64);
    ASSERT_TRUE(longer.extend(16).is_ok());
    cache->insert("t", ids(80, 1000), longer);
    longer = SequenceKv(*pool);
    EXPECT_EQ(cache->claimed(8), 80);
    EXPECT_TRUE(cache->could_spare_claims({before + 3, before + 3}));
    EXPECT_FALSE(cache->could_spare_claims({before + 4, before + 4})) << "the claim has gone on to the new block";
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
