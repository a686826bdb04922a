#include "model/attention/policies/decode_selection/decode_selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <thread>

#include "tests/model/method_keys.hpp"
#include "tests/model/methods_where.hpp"
#include "tests/model/score_rows.hpp"

namespace rondo {
namespace {

using testing::Chosen;
using testing::chosen_by;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::key_range;
using testing::naive_pool;
using testing::naive_top;
using testing::random_rows;
using testing::random_settings;
using testing::ScoreRows;
using Method = DecodeAttention::Method;

const std::vector<Method> methods =
    testing::methods_where<Method>(decode_method_rows, [](const MethodRow& row) { return !row.pages; });

size_t total(const Chosen& chosen) {
    size_t sum = 0;
    for (const auto& keys : chosen) sum += keys.size();
    return sum;
}

bool ascending_within(const std::vector<int32_t>& keys, int64_t count) {
    return std::ranges::adjacent_find(keys, std::greater_equal<>()) == keys.end() &&
           (keys.empty() || (keys.front() >= 0 && keys.back() < count));
}

bool holds(const std::vector<int32_t>& keys, int64_t first, int64_t last) {
    return std::ranges::includes(keys, key_range(first, last));
}

/// Sinks, the best of what is between, and recent keys.
std::vector<int32_t> naive_best(const ScoreRows& rows, int head, int64_t budget, int64_t sinks, int64_t recent,
                                int pool, bool around = true) {
    auto keys = key_range(0, sinks);
    const auto middle = naive_top(naive_pool(rows.between(head, sinks, rows.keys - recent), pool, around),
                                  budget - sinks - recent, static_cast<int32_t>(sinks));
    keys.insert(keys.end(), middle.begin(), middle.end());
    const auto last = key_range(rows.keys - recent, rows.keys);
    keys.insert(keys.end(), last.begin(), last.end());
    return keys;
}

TEST(DecodeSelection, DenseAndMethodsOfPagesChooseNoKeys) {
    EXPECT_EQ(make_decode_selection({.method = Method::dense}), nullptr);
    for (const Method method :
         testing::methods_where<Method>(decode_method_rows, [](const MethodRow& row) { return row.pages; }))
        EXPECT_EQ(make_decode_selection({.method = method}), nullptr) << row_of(method).name;
}

TEST(DecodeSelection, MethodsKeepToTheClaimsOfTheirRows) {
    for (const Method method : methods) {
        const MethodRow& row = row_of(method);
        SCOPED_TRACE(row.name);
        const auto selection = make_decode_selection({.method = method,
                                                      .budget_tokens = 100,
                                                      .reselect_every = 8,
                                                      .cold_tokens = 3,
                                                      .lag_steps = 2,
                                                      .window = 20});
        ASSERT_NE(selection, nullptr);
        const ChoiceTriggers triggers = selection->triggers();
        const bool again = row.when == ChoosesWhen::again;
        EXPECT_EQ(triggers.after_prefill, !again);
        EXPECT_EQ(triggers.every, again ? 8 : row.when == ChoosesWhen::every_step ? 1 : 0);
        EXPECT_EQ(triggers.first, again ? 3 : 0);
        EXPECT_EQ(triggers.once, row.when == ChoosesWhen::every_step);
        EXPECT_EQ(selection->queries() > 0, row.scores);
        EXPECT_EQ(selection->evicts(), row.gives_up);
        EXPECT_FALSE(selection->wanted(100));
        EXPECT_TRUE(selection->wanted(101));
    }
}

/// All that a method says and chooses, as text.
std::string behaviour(const DecodeAttention& settings) {
    const auto selection = make_decode_selection(settings);
    const ChoiceTriggers triggers = selection->triggers();
    std::ostringstream text;
    text << triggers.after_prefill << ' ' << triggers.every << ' ' << triggers.first << ' ' << triggers.once << ' '
         << selection->queries() << ' ' << selection->evicts() << selection->accumulates() << selection->shifts();
    if (triggers.go_on()) text << " lag " << settings.lag_steps;  // the runtime's, of all that choose again
    std::mt19937 random(5);
    for (int i = 0; i < 8;) {
        const ScoreRows rows = random_rows(random, 300);
        if (rows.keys < 100) continue;
        for (const auto& keys : chosen_by(settings, rows)) {
            text << '\n';
            for (const int32_t key : keys) text << key << ' ';
        }
        ++i;
    }
    return text.str();
}

/// What `rondo eval` lets set and what the reference says depend on it.
TEST(DecodeSelection, HeedsTheKeysOfItsRowAndNoOthers) {
    for (const Method method : methods) {
        std::map<std::string, bool> heeded;
        const auto settings_with = [method](DecodeAttention settings) {
            settings.method = method;
            settings.budget_tokens = 40;
            return settings;
        };
        const std::vector<std::string> base = {"pipeline.decode.attention.pool=5"};  // else h2o has no side of a pool
        const Settings before = settings_from_yaml("", "test", base).value();
        const std::string unchanged = behaviour(settings_with(before.pipeline.decode.attention));
        for (const auto& [key, settings] : testing::changed_keys("pipeline.decode.attention.", base))
            heeded[key] |= behaviour(settings_with(settings.pipeline.decode.attention)) != unchanged;
        for (const auto& [key, is_heeded] : heeded)
            EXPECT_EQ(is_heeded, heeds(row_of(method), key)) << row_of(method).name << ": " << key;
    }
}

/// Scratch memory is the thread's; nothing in it changes a choice.
TEST(DecodeSelection, MethodsChooseTheSameOnAThreadThatHasChosenNothing) {
    std::mt19937 random(8);
    for (const Method method : methods) {
        const DecodeAttention settings{.method = method, .budget_tokens = 40};
        for (int i = 0; i < 10; ++i) {
            chosen_by(settings, random_rows(random, 500));
            const ScoreRows rows = random_rows(random, 300);
            const Chosen here = chosen_by(settings, rows);
            Chosen elsewhere;
            std::thread([&] { elsewhere = chosen_by(settings, rows); }).join();
            EXPECT_EQ(here, elsewhere) << row_of(method).name;
        }
    }
}

TEST(DecodeSelection, MethodsSayWhenTheyChooseAndWhatTheyGiveUp) {
    struct Said {
        Method method;
        bool after_prefill;
        int every, first, queries;
        bool evicts;
    };
    constexpr Said expected[] = {
        {Method::progressive, false, 8, 3, 5, false}, {Method::snapkv, true, 0, 0, 20, true},
        {Method::adakv, true, 0, 0, 20, true},        {Method::streaming_llm, true, 1, 0, 0, true},
        {Method::h2o, true, 1, 0, 20, true},          {Method::random, false, 8, 3, 0, false},
        {Method::recent, false, 8, 3, 0, false},      {Method::oracle, false, 8, 3, 0, false},
    };
    for (const Said& each : expected) {
        SCOPED_TRACE(static_cast<int>(each.method));
        const auto selection = make_decode_selection({.method = each.method,
                                                      .budget_tokens = 100,
                                                      .reselect_every = 8,
                                                      .cold_tokens = 3,
                                                      .observe = 5,
                                                      .window = 20});
        EXPECT_EQ(selection->triggers().after_prefill, each.after_prefill);
        EXPECT_EQ(selection->triggers().every, each.every);
        EXPECT_EQ(selection->triggers().first, each.first);
        EXPECT_EQ(selection->queries(), each.queries);
        EXPECT_EQ(selection->evicts(), each.evicts);
        EXPECT_FALSE(selection->wanted(100));
        EXPECT_TRUE(selection->wanted(101));
    }
}

TEST(DecodeSelection, ABudgetForAllKeysChoosesAllKeys) {
    std::mt19937 random(1);
    for (const Method method : methods) {
        for (int round = 0; round < 30; ++round) {
            const ScoreRows rows = random_rows(random, 200);
            const int budget = static_cast<int>(rows.keys) + static_cast<int>(random() % 3);
            const auto chosen = chosen_by(random_settings(random, method, budget), rows);
            ASSERT_THAT(chosen, Each(key_range(0, rows.keys))) << row_of(method).name;
        }
    }
}

TEST(DecodeSelection, ChoosesExactlyTheBudgetAscendingAndTheSameAgain) {
    std::mt19937 random(2);
    for (const Method method : methods) {
        for (int round = 0; round < 150; ++round) {
            const ScoreRows rows = random_rows(random, 400);
            if (rows.keys < 2) continue;
            const int budget = 1 + static_cast<int>(random() % static_cast<unsigned>(rows.keys - 1));
            const auto settings = random_settings(random, method, budget);
            const auto chosen = chosen_by(settings, rows);
            SCOPED_TRACE(std::string(row_of(method).name) + ", budget " + std::to_string(budget) + " of " +
                         std::to_string(rows.keys));
            ASSERT_EQ(total(chosen), static_cast<size_t>(budget) * chosen.size());
            for (const auto& keys : chosen) {
                ASSERT_TRUE(ascending_within(keys, rows.keys));
                ASSERT_TRUE(row_of(method).ragged || keys.size() == static_cast<size_t>(budget)) << keys.size();
                ASSERT_TRUE(!row_of(method).keeps_newest || keys.back() == rows.keys - 1) << "the newest is always in";
            }
            ASSERT_EQ(chosen_by(settings, rows), chosen);
        }
    }
}

TEST(Progressive, KeepsSinksAndWindowAndTheBestBetween) {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        const ScoreRows rows = random_rows(random, 600);
        if (rows.keys < 2) continue;
        const int budget = 1 + static_cast<int>(random() % static_cast<unsigned>(rows.keys - 1));
        auto settings = random_settings(random, Method::progressive, budget);
        const bool around = round % 2 == 0;
        settings.pool_side = around ? DecodeAttention::PoolSide::around : DecodeAttention::PoolSide::after;
        const int64_t window = std::max(1, std::min(settings.reselect_every, budget / 4));
        const int64_t sinks = std::min<int64_t>(settings.sinks, budget - window);
        const auto chosen = chosen_by(settings, rows);
        for (int head = 0; head < rows.kv_heads; ++head) {
            const auto& keys = chosen[static_cast<size_t>(head)];
            ASSERT_TRUE(holds(keys, 0, sinks) && holds(keys, rows.keys - window, rows.keys));
            ASSERT_EQ(keys, naive_best(rows, head, budget, sinks, window, settings.pool, around)) << "round " << round;
        }
    }
}

TEST(Progressive, SinksAndWindowLendTheirNeighboursNoWeight) {
    ScoreRows rows{.kv_heads = 1, .keys = 100, .weights = std::vector<float>(100, 1e-3F)};
    rows.weights[0] = rows.weights[3] = rows.weights[96] = 50.0F;
    rows.weights[40] = 0.5F;
    const auto chosen = chosen_by({.method = Method::progressive, .budget_tokens = 16, .pool = 7, .sinks = 4}, rows);
    EXPECT_THAT(chosen[0], ElementsAre(0, 1, 2, 3, 4, 40, 41, 42, 43, 44, 45, 46, 96, 97, 98, 99));
}

TEST(Progressive, LooksAtTheQueriesSinceTheLastSelectionAtMost) {
    EXPECT_EQ(make_decode_selection({.method = Method::progressive, .reselect_every = 16, .observe = 4})->queries(), 4);
    EXPECT_EQ(make_decode_selection({.method = Method::progressive, .reselect_every = 4, .observe = 16})->queries(), 4);
}

TEST(SnapKv, KeepsTheWindowAndTheBestBeforeIt) {
    std::mt19937 random(4);
    for (int round = 0; round < 300; ++round) {
        const ScoreRows rows = random_rows(random, 600);
        if (rows.keys < 2) continue;
        const int budget = 1 + static_cast<int>(random() % static_cast<unsigned>(rows.keys - 1));
        const auto settings = random_settings(random, Method::snapkv, budget);
        const int64_t window = std::max(1, std::min(settings.window, budget / 4));
        const auto chosen = chosen_by(settings, rows);
        for (int head = 0; head < rows.kv_heads; ++head)
            ASSERT_EQ(chosen[static_cast<size_t>(head)], naive_best(rows, head, budget, 0, window, settings.pool));
    }
}

TEST(SnapKv, ALargeWindowIsCutToAQuarterOfTheBudget) {
    for (const Method method : {Method::snapkv, Method::adakv}) {
        EXPECT_EQ(make_decode_selection({.method = method, .budget_tokens = 40, .window = 32})->queries(), 10);
        EXPECT_EQ(make_decode_selection({.method = method, .budget_tokens = 2, .window = 32})->queries(), 1);
    }
}

TEST(H2o, KeepsHalfHeavyAndHalfRecentKeys) {
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
        const ScoreRows rows = random_rows(random, 600);
        if (rows.keys < 2) continue;
        const int budget = 1 + static_cast<int>(random() % static_cast<unsigned>(rows.keys - 1));
        auto settings = random_settings(random, Method::h2o, budget);
        if (round % 2 == 0) settings.pool = 0;  // its own: none
        const auto chosen = chosen_by(settings, rows);
        for (int head = 0; head < rows.kv_heads; ++head)
            ASSERT_EQ(chosen[static_cast<size_t>(head)],
                      naive_best(rows, head, budget, 0, budget - budget / 2, std::max(1, settings.pool)));
    }
}

TEST(DecodeSelection, PoolsAsTheMethodDoesUnlessSettingsSayOtherwise) {
    struct Own {
        Method method;
        int pool;
        DecodeAttention::PoolSide side;
    };
    using Side = DecodeAttention::PoolSide;
    std::mt19937 random(8);
    ScoreRows rows{.kv_heads = 2, .keys = 400, .weights = std::vector<float>(800)};
    for (float& weight : rows.weights) weight = std::uniform_real_distribution<float>()(random);
    for (const Own& own : {Own{Method::progressive, 7, Side::after}, Own{Method::snapkv, 7, Side::around},
                           Own{Method::adakv, 7, Side::around}, Own{Method::h2o, 1, Side::around}}) {
        const auto with = [&](int pool, Side side) {
            return chosen_by({.method = own.method, .budget_tokens = 60, .pool = pool, .pool_side = side}, rows);
        };
        const Side other = own.side == Side::after ? Side::around : Side::after;
        EXPECT_EQ(with(0, Side::own), with(own.pool, own.side));
        EXPECT_EQ(with(5, Side::own), with(5, own.side));
        EXPECT_NE(with(5, Side::own), with(5, other));
    }
}

TEST(StreamingLlm, KeepsSinksAndTheMostRecentWithoutScores) {
    const ScoreRows rows{.kv_heads = 3, .keys = 50};
    EXPECT_THAT(chosen_by({.method = Method::streaming_llm, .budget_tokens = 7, .sinks = 4}, rows),
                Each(ElementsAre(0, 1, 2, 3, 47, 48, 49)));
    EXPECT_THAT(chosen_by({.method = Method::streaming_llm, .budget_tokens = 3, .sinks = 4}, rows),
                Each(ElementsAre(0, 1, 49)));
}

}  // namespace
}  // namespace rondo
