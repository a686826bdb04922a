#include "model/attention/policies/decode_selection/quest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/counting_allocator.hpp"
#include "tests/model/score_rows.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using testing::key_range;
using testing::naive_top;

std::vector<float> random_floats(size_t count, std::mt19937& random) {
    std::normal_distribution<float> normal(0.0F, 3.0F);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
}

double dot(const float* a, const float* b, size_t count) {
    double sum = 0.0;
    for (size_t c = 0; c < count; ++c) sum += double{a[c]} * b[c];
    return sum;
}

double length(const float* a, size_t count) {
    return std::sqrt(dot(a, a, count));
}

/// A KV head's keys in pages, the last of them not full, and the queries of its group.
struct Head {
    size_t head_size, heads, keys;
    std::vector<float> key, query, lowest, highest, scores;

    Head(size_t head_size_in, size_t heads_in, size_t keys_in, std::mt19937& random)
        : head_size(head_size_in), heads(heads_in), keys(keys_in) {
        constexpr auto page_keys = static_cast<size_t>(quest_page_keys);
        const size_t pages = (keys + page_keys - 1) / page_keys;
        key = random_floats(keys * head_size, random);
        query = random_floats(heads * head_size, random);
        lowest.resize(pages * head_size);
        highest.resize(pages * head_size);
        scores.resize(pages);
        for (size_t page = 0; page < pages; ++page) {
            const auto low = std::span(lowest).subspan(page * head_size, head_size);
            const auto high = std::span(highest).subspan(page * head_size, head_size);
            const size_t first = page * page_keys, count = std::min(page_keys, keys - first);
            clear_page_bounds(low, high);
            extend_page_bounds(std::span(key).subspan(first * head_size, count * head_size), low, high);
        }
        std::vector<float> on_lowest(head_size), on_highest(head_size);
        weigh_page_bounds(query, on_lowest, on_highest);
        score_pages(on_lowest, on_highest, lowest, highest, scores);
    }
};

TEST(Quest, APagesScoreIsNoLessThanThatOfAnyOfItsKeys) {
    std::mt19937 random(1);
    for (const size_t head_size : {1U, 7U, 16U, 24U, 64U, 80U, 128U}) {
        for (const size_t keys : {1U, 15U, 16U, 17U, 150U}) {
            const Head head(head_size, 1, keys, random);
            for (size_t k = 0; k < keys; ++k) {
                const float* key = &head.key[k * head_size];
                const double slack = 1e-5 * length(head.query.data(), head_size) * length(key, head_size);
                ASSERT_GE(head.scores[k / 16] + slack, dot(head.query.data(), key, head_size))
                    << "key " << k << " of " << keys << ", head size " << head_size;
            }
        }
    }
}

TEST(Quest, APageOfOneKeyScoresAsTheKey) {
    std::mt19937 random(2);
    const Head head(64, 1, 1, random);
    const double exact = dot(head.query.data(), head.key.data(), 64);
    EXPECT_NEAR(head.scores[0], exact, 1e-5 * length(head.query.data(), 64) * length(head.key.data(), 64));
}

TEST(Quest, AGroupsScoreIsTheMeanOfItsHeadsBounds) {
    std::mt19937 random(3);
    for (const size_t heads : {1U, 2U, 7U}) {
        const Head head(48, heads, 100, random);
        for (size_t page = 0; page < head.scores.size(); ++page) {
            double mean = 0.0;
            for (size_t i = 0; i < heads * 48; ++i) {
                const double query = head.query[i];
                const size_t c = page * 48 + i % 48;
                mean += std::max(query * head.lowest[c], query * head.highest[c]) / static_cast<double>(heads);
            }
            ASSERT_NEAR(head.scores[page], mean, 1e-5 * std::abs(mean) + 1e-3) << "page " << page;
        }
    }
}

TEST(Quest, BoundsGrowKeyByKeyAsTheyDoAtOnce) {
    std::mt19937 random(4);
    const Head head(20, 1, 16, random);
    std::vector<float> lowest(20), highest(20);
    clear_page_bounds(lowest, highest);
    for (size_t k = 0; k < 16; ++k) extend_page_bounds(std::span(head.key).subspan(k * 20, 20), lowest, highest);
    EXPECT_EQ(lowest, head.lowest);
    EXPECT_EQ(highest, head.highest);
    for (size_t c = 0; c < 20; ++c) {
        std::vector<float> channel;
        for (size_t k = 0; k < 16; ++k) channel.push_back(head.key[k * 20 + c]);
        ASSERT_EQ(lowest[c], *std::ranges::min_element(channel));
        ASSERT_EQ(highest[c], *std::ranges::max_element(channel));
    }
}

std::vector<int32_t> pages_of(const std::vector<float>& scores, int64_t budget_keys) {
    RankScratch scratch;
    std::vector<int32_t> pages{77};
    choose_pages(scores, budget_keys, scratch, pages);
    return pages;
}

TEST(Quest, ChoosesTheBestPagesAndTheLast) {
    EXPECT_THAT(pages_of({-1, 5, -7, 3, -9}, 48), ElementsAre(1, 3, 4));
    EXPECT_THAT(pages_of({-3, -1, -2, -4, 8}, 48), ElementsAre(1, 2, 4)) << "scores below zero have an order too";
    EXPECT_THAT(pages_of({2, 2, 2, 2, 2}, 48), ElementsAre(0, 1, 4)) << "of equal ones the earlier";
    std::mt19937 random(5);
    RankScratch scratch;
    std::vector<int32_t> pages;
    for (int round = 0; round < 200; ++round) {
        auto scores = random_floats(1 + random() % 300, random);
        const auto budget = static_cast<int64_t>(random() % 6000);
        choose_pages(scores, budget, scratch, pages);
        const auto last = static_cast<int64_t>(scores.size()) - 1;
        scores.pop_back();
        auto expected = naive_top(scores, std::min(last, std::max<int64_t>(3, budget / 16) - 1));
        expected.push_back(static_cast<int32_t>(last));
        ASSERT_EQ(pages, expected) << last + 1 << " pages, budget " << budget;
    }
}

TEST(Quest, SmallBudgetsLeaveThreePagesAndLargeOnesAll) {
    const std::vector<float> scores{9, 8, 7, 6, 1};
    for (const int64_t budget : {0, 15, 32, 63}) EXPECT_THAT(pages_of(scores, budget), ElementsAre(0, 1, 4)) << budget;
    EXPECT_THAT(pages_of(scores, 64), ElementsAre(0, 1, 2, 4));
    EXPECT_EQ(pages_of(scores, 80), key_range(0, 5));
    EXPECT_EQ(pages_of(scores, 1'000'000), key_range(0, 5));
    EXPECT_THAT(pages_of({3}, 1024), ElementsAre(0));
}

TEST(Quest, AStepAllocatesNothingOnceWarm) {
    std::mt19937 random(6);
    const auto scores = random_floats(500, random);
    RankScratch scratch;
    std::vector<int32_t> pages;
    choose_pages(scores, 1024, scratch, pages);
    const auto first = pages;
    const int64_t before = testing::allocations();
    choose_pages(scores, 1024, scratch, pages);
    EXPECT_EQ(testing::allocations() - before, 0);
    EXPECT_EQ(pages, first);
}

}  // namespace
}  // namespace rondo
