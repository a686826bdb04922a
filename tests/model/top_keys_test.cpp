#include "model/attention/policies/decode_selection/top_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/counting_allocator.hpp"
#include "tests/model/score_rows.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using testing::key_range;
using testing::make_scores;
using testing::naive_pool;
using testing::naive_top;

std::vector<uint32_t> ranks_of(const std::vector<float>& scores, int pool) {
    TopKeys top;
    std::vector<uint32_t> ranks(scores.size());
    top.rank(scores, pool, ranks);
    return ranks;
}

std::vector<float> pooled(const std::vector<float>& scores, int pool) {
    std::vector<float> result;
    for (const uint32_t rank : ranks_of(scores, pool)) result.push_back(std::bit_cast<float>(rank));
    return result;
}

std::vector<int32_t> best(const std::vector<float>& scores, int pool, int64_t count, int64_t first = 0) {
    TopKeys top;
    std::vector<int32_t> chosen;
    top.append(ranks_of(scores, pool), count, first, chosen);
    return chosen;
}

TEST(TopKeys, AWindowIsCentredAndClippedAtTheEnds) {
    EXPECT_THAT(pooled({1, 0, 0, 0, 5, 0, 0, 0, 2}, 3), ElementsAre(1, 1, 0, 5, 5, 5, 0, 2, 2));
}

TEST(TopKeys, AnEvenWindowReachesWhatFollowsAKey) {
    EXPECT_THAT(pooled({0, 0, 0, 5, 0, 0, 0, 0}, 2), ElementsAre(0, 0, 0, 5, 5, 0, 0, 0));
    EXPECT_THAT(pooled({0, 0, 0, 5, 0, 0, 0, 0}, 4), ElementsAre(0, 0, 5, 5, 5, 5, 0, 0));
}

TEST(TopKeys, PoolsAsOneWindowAtATimeDoes) {
    std::mt19937 random(1);
    for (const auto kind : testing::score_kinds) {
        for (const int pool : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 64, 1000, std::numeric_limits<int>::max()}) {
            const auto scores = make_scores(kind, 1 + random() % 300, random);
            ASSERT_EQ(pooled(scores, pool), naive_pool(scores, std::min(pool, 1000)))
                << "pool " << pool << ", " << scores.size() << " keys";
        }
    }
}

TEST(TopKeys, ChoosesAsSortingDoes) {
    std::mt19937 random(2);
    TopKeys top;
    for (int round = 0; round < 60; ++round) {
        for (const auto kind : testing::score_kinds) {
            const auto scores = make_scores(kind, 1 + random() % 700, random);
            const int pool = 1 + static_cast<int>(random() % 9);
            const auto count = static_cast<int64_t>(random() % (scores.size() + 1));
            const auto first = static_cast<int32_t>(random() % 1000);
            std::vector<uint32_t> ranks(scores.size());
            top.rank(scores, pool, ranks);
            std::vector<int32_t> chosen;
            top.append(ranks, count, first, chosen);
            ASSERT_EQ(chosen, naive_top(naive_pool(scores, pool), count, first))
                << "kind " << static_cast<int>(kind) << ", " << scores.size() << " keys, pool " << pool << ", top "
                << count;
        }
    }
}

TEST(TopKeys, ChoosesAmongManyKeysAsSortingDoes) {
    std::mt19937 random(3);
    for (const auto kind : testing::score_kinds) {
        for (const int64_t keys : {512, 513, 2047, 2048, 2049, 6000}) {
            const auto scores = make_scores(kind, static_cast<size_t>(keys), random);
            for (const int pool : {1, 7, 8, 3000}) {
                const auto pooled = naive_pool(scores, pool);
                for (const int64_t count : {int64_t{1}, keys / 16, keys - 1, keys})
                    ASSERT_EQ(best(scores, pool, count), naive_top(pooled, count))
                        << "kind " << static_cast<int>(kind) << ", " << keys << " keys, pool " << pool << ", top "
                        << count;
            }
        }
    }
}

TEST(TopKeys, OfEqualScoresTheEarlierWins) {
    EXPECT_THAT(best({3, 1, 3, 2, 3, 3}, 1, 3), ElementsAre(0, 2, 4));
    EXPECT_THAT(best({1, 1, 9, 1, 1}, 1, 3), ElementsAre(0, 1, 2));
    EXPECT_EQ(best(std::vector<float>(100, 0.5F), 7, 40), key_range(0, 40));
}

TEST(TopKeys, TellsScoresApartInTheirLastBit) {
    std::vector<float> scores(50, 1.0F);
    scores[37] = std::nextafter(1.0F, 2.0F);
    scores[12] = std::nextafter(1.0F, 0.0F);
    EXPECT_THAT(best(scores, 1, 1), ElementsAre(37));
    auto all_but_12 = key_range(0, 50);
    all_but_12.erase(all_but_12.begin() + 12);
    EXPECT_EQ(best(scores, 1, 49), all_but_12);
}

TEST(TopKeys, WhatIsNoScoreCountsAsNothing) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(pooled({nan, -nan, -1, -0.0F, 2}, 1), ElementsAre(0, 0, 0, 0, 2));
    EXPECT_EQ(ranks_of({-0.0F}, 1)[0], 0U);
    EXPECT_THAT(pooled({nan, 1, nan, 3, nan}, 3), ElementsAre(1, 1, 3, 3, 3));
    EXPECT_EQ(best(std::vector<float>(64, nan), 7, 10), key_range(0, 10));
    EXPECT_THAT(best({1, std::numeric_limits<float>::infinity(), 2}, 1, 1), ElementsAre(1));
}

TEST(TopKeys, AppendsToWhatIsThere) {
    TopKeys top;
    std::vector<int32_t> chosen{0, 1};
    top.append(ranks_of({0, 4, 0, 9}, 1), 2, 10, chosen);
    EXPECT_THAT(chosen, ElementsAre(0, 1, 11, 13));
    top.append(ranks_of({1, 2}, 1), 0, 99, chosen);
    EXPECT_THAT(chosen, ElementsAre(0, 1, 11, 13));
}

TEST(TopKeys, ACutCountsTheTiesThatAreTaken) {
    TopKeys top;
    const std::vector<uint32_t> ranks{7, 9, 7, 1, 7, 0xFFFFFFFF};
    const auto cut = top.cut(ranks, 4);
    EXPECT_EQ(cut.rank, 7U);
    EXPECT_EQ(cut.ties, 2);
    EXPECT_EQ(top.cut(ranks, 1).rank, 0xFFFFFFFF);
    EXPECT_EQ(top.cut(ranks, 6).rank, 1U);
}

TEST(TopKeys, RanksMayFillTheirWholeRange) {
    TopKeys top;
    std::vector<uint32_t> ranks(2000, 5);
    for (uint32_t i = 0; i < 100; ++i) ranks[3 + 7 * i] = 0xFFFFFFFF - i % 10;
    EXPECT_EQ(top.cut(ranks, 1).rank, 0xFFFFFFFF);
    EXPECT_EQ(top.cut(ranks, 95).rank, 0xFFFFFFF6);
    EXPECT_EQ(top.cut(ranks, 95).ties, 5);
    EXPECT_EQ(top.cut(ranks, 101).rank, 5U);
    ranks[0] = 0;
    EXPECT_EQ(top.cut(ranks, 2000).rank, 0U);
}

TEST(TopKeys, AllocatesNothingForARowNoLongerThanTheLast) {
    std::mt19937 random(4);
    const auto scores = make_scores(testing::ScoreKind::equal, 5000, random);
    std::vector<uint32_t> ranks(scores.size());
    std::vector<int32_t> chosen;
    chosen.reserve(ranks.size());
    TopKeys top;
    top.rank(scores, 7, ranks);
    top.append(ranks, 100, 0, chosen);
    const int64_t before = testing::allocations();
    chosen.clear();
    top.rank(std::span(scores).first(4000), 7, std::span(ranks).first(4000));
    top.append(std::span<const uint32_t>(ranks).first(4000), 200, 0, chosen);
    EXPECT_EQ(testing::allocations() - before, 0);
    EXPECT_EQ(chosen, key_range(0, 200));
}

}  // namespace
}  // namespace rondo
