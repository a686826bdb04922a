#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "cli/measure/multi_turn/words.hpp"
#include "cli/measure/multi_turn/workload.hpp"

namespace rondo::cli::multi_turn {
namespace {

Workload known(const char* name) {
    return find_workload(name).value();
}

/// Values of many plans: their mean and their ends.
struct Spread {
    double sum = 0.0;
    int64_t count = 0, low = std::numeric_limits<int64_t>::max(), high = 0;

    void add(int64_t value) {
        sum += static_cast<double>(value);
        ++count;
        low = std::min(low, value);
        high = std::max(high, value);
    }
    double mean() const { return sum / static_cast<double>(count); }
};

TEST(Workload, LengthsHaveTheStatedDistributions) {
    Workload vllm = known("vllm");
    vllm.conversations = 5000;
    Spread turns, prefix, user, answer;
    for (const ConversationPlan& one : plan(vllm, 3)) {
        turns.add(static_cast<int64_t>(one.turns.size()));
        prefix.add(one.own_prefix_tokens);
        for (const TurnPlan& turn : one.turns) user.add(turn.user_tokens), answer.add(turn.answer_tokens);
    }
    EXPECT_NEAR(turns.mean(), 15.0, 0.15);
    EXPECT_EQ(turns.low, 12);
    EXPECT_EQ(turns.high, 18);
    EXPECT_NEAR(user.mean(), 140.0, 0.5);
    EXPECT_EQ(user.low, 120);
    EXPECT_EQ(user.high, 160);
    EXPECT_NEAR(answer.mean(), 100.0, 0.5);
    EXPECT_EQ(answer.low, 80);
    EXPECT_EQ(answer.high, 120);
    // The cut tail takes a little off the mean.
    EXPECT_NEAR(prefix.mean(), 1000.0, 30.0);
    EXPECT_LE(prefix.high, 5000);
    EXPECT_GT(prefix.high, 3000);
    EXPECT_LT(prefix.low, 300);
}

TEST(Workload, OnePrefixLengthForAllIsExact) {
    for (const ConversationPlan& one : plan(known("lmcache"), 1)) EXPECT_EQ(one.own_prefix_tokens, 2000);
    for (const ConversationPlan& one : plan(known("documents"), 1)) EXPECT_EQ(one.own_prefix_tokens, 10'000);
    for (const ConversationPlan& one : plan(known("sglang"), 1)) {
        EXPECT_EQ(one.own_prefix_tokens, 0);
        EXPECT_EQ(one.turns.size(), 5u);
        EXPECT_EQ(one.turns[4].user_tokens, 512);
        EXPECT_EQ(one.turns[4].answer_tokens, 64);
    }
}

TEST(Workload, PlansAreTheSeeds) {
    const auto lengths = [](uint64_t seed, int64_t conversations) {
        Workload vllm = known("vllm");
        vllm.conversations = conversations;
        std::vector<int64_t> out;
        for (const ConversationPlan& one : plan(vllm, seed)) {
            out.push_back(one.own_prefix_tokens);
            for (const TurnPlan& turn : one.turns) out.push_back(turn.user_tokens * 1000 + turn.answer_tokens);
        }
        return out;
    };
    EXPECT_EQ(lengths(1, 24), lengths(1, 24));
    EXPECT_NE(lengths(1, 24), lengths(2, 24));
    const auto more = lengths(1, 30);
    const auto fewer = lengths(1, 24);
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), more.begin()));
}

TEST(Workload, ScalingMultipliesTokensAndNothingElse) {
    Workload vllm = known("vllm");
    scale(vllm, 0.05);
    EXPECT_EQ(vllm.shared_prefix_tokens, 25);
    EXPECT_EQ(vllm.own_prefix.mean_tokens, 50);
    EXPECT_EQ(vllm.own_prefix.tokens_max, 250);
    EXPECT_EQ(vllm.user_tokens.low, 6);
    EXPECT_EQ(vllm.user_tokens.high, 8);
    EXPECT_EQ(vllm.answer_tokens.high, 6);
    EXPECT_EQ(vllm.turns.high, 18);
    EXPECT_EQ(vllm.conversations, 24);
    Workload sglang = known("sglang");
    scale(sglang, 1e-6);
    EXPECT_EQ(sglang.shared_prefix_tokens, 0);
    EXPECT_EQ(sglang.user_tokens.low, 1);
}

TEST(Workload, AllKnownOnesAreSound) {
    for (const Workload& workload : known_workloads()) EXPECT_TRUE(validate(workload).is_ok()) << workload.name;
    const auto unknown = find_workload("tpc");
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().message, ::testing::HasSubstr("vllm, sglang, lmcache, idle, documents"));
}

TEST(Workload, WhatIsTooLargeIsNamed) {
    const auto expect = [](const char* words, const std::function<void(Workload&)>& change) {
        Workload workload = known("vllm");
        change(workload);
        const Status status = validate(workload);
        ASSERT_FALSE(status.is_ok()) << words;
        EXPECT_THAT(status.error().message, ::testing::StartsWith(words));
    };
    constexpr int64_t huge = std::numeric_limits<int64_t>::max();
    expect("turns", [](Workload& one) { one.turns = {0, 1}; });
    expect("turns", [](Workload& one) { one.turns = {5, 4}; });
    expect("conversations", [](Workload& one) { one.conversations = 0; });
    expect("conversations", [](Workload& one) { one.conversations = huge; });
    expect("conversations", [](Workload& one) { one.conversations = 1000, one.turns = {1, 1001}; });
    expect("user tokens", [](Workload& one) { one.user_tokens = {0, 1}; });
    expect("answer tokens", [](Workload& one) { one.answer_tokens = {1, huge}; });
    expect("shared prefix", [](Workload& one) { one.shared_prefix_tokens = -1; });
    expect("own prefix", [](Workload& one) { one.own_prefix = {2, 1}; });
    expect("active", [](Workload& one) { one.active = 0; });
    expect("clients", [](Workload& one) { one.clients = 257; });
    expect("rate", [](Workload& one) { one.rate = std::numeric_limits<double>::quiet_NaN(); });
    expect("gap", [](Workload& one) { one.gap_s = -1.0; });
}

TEST(Words, AreDrawnByTheSeed) {
    Seeded one(1, 5), same(1, 5), other(1, 6);
    const std::string text = draw_words(one, 100);
    EXPECT_EQ(text, draw_words(same, 100));
    EXPECT_NE(text, draw_words(other, 100));
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 99);
    EXPECT_EQ(draw_words(one, 0), "");
}

TEST(Words, AreAsManyAsTheTokensTake) {
    const auto words = [](int64_t tokens, double tokens_per_word) {
        Seeded random(1, 1);
        const std::string text = draw_tokens(random, tokens, tokens_per_word);
        return text.empty() ? 0 : std::count(text.begin(), text.end(), ' ') + 1;
    };
    EXPECT_EQ(words(1000, 1.0), 1000);
    EXPECT_EQ(words(1000, 2.5), 400);
    EXPECT_EQ(words(1, 4.0), 1);
    EXPECT_EQ(words(0, 1.0), 0);
}

TEST(Seeded, NumbersFillTheirRanges) {
    Seeded random(1, 1);
    std::set<int64_t> seen;
    double normal = 0.0, square = 0.0, wait = 0.0;
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) {
        seen.insert(random.between(-2, 2));
        const double one = random.normal();
        normal += one / draws;
        square += one * one / draws;
        wait += random.exponential(4.0) / draws;
    }
    EXPECT_THAT(seen, ::testing::ElementsAre(-2, -1, 0, 1, 2));
    EXPECT_NEAR(normal, 0.0, 0.03);
    EXPECT_NEAR(square, 1.0, 0.05);
    EXPECT_NEAR(wait, 0.25, 0.01);
}

}  // namespace
}  // namespace rondo::cli::multi_turn
