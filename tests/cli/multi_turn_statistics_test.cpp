#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/multi_turn/report.hpp"
#include "cli/measure/multi_turn/statistics.hpp"

namespace rondo::cli::multi_turn {
namespace {

using ::testing::HasSubstr;

TEST(Summary, DoesNotCareForTheOrder) {
    std::vector<double> values;
    for (int i = 0; i <= 100; ++i) values.push_back((i * 37) % 101);
    const Summary summary = summarize(values);
    EXPECT_EQ(summary.count, 101u);
    EXPECT_DOUBLE_EQ(summary.mean, 50.0);
    EXPECT_DOUBLE_EQ(summary.p50, 50.0);
    EXPECT_DOUBLE_EQ(summary.p90, 90.0);
    EXPECT_DOUBLE_EQ(summary.p99, 99.0);
    EXPECT_EQ(summarize({}).count, 0u);
}

TurnTimes answer(size_t round, double ttft_s, double e2e_s, int64_t tokens) {
    TurnTimes times;
    times.round = round;
    times.ttft_s = ttft_s;
    times.e2e_s = e2e_s;
    times.asked_tokens = times.answer_tokens = tokens;
    times.prompt_tokens = 100;
    times.gaps_s.assign(static_cast<size_t>(tokens - 1), (e2e_s - ttft_s) / static_cast<double>(tokens - 1));
    return times;
}

TurnTimes failure(const char* kind) {
    TurnTimes times;
    times.error = kind;
    times.message = std::string("because of ") + kind;
    times.ttft_s = 1e6;
    return times;
}

Replayed some_run() {
    Replayed run;
    run.seconds = 10.0;
    run.turns_skipped = 4;
    run.turns = {answer(0, 1.0, 2.0, 11), answer(0, 3.0, 4.0, 11), answer(1, 0.5, 2.5, 11),
                 failure("HTTP 429"),     failure("short answer"), failure("HTTP 429")};
    run.turns[0].cached_tokens = 40;
    run.turns[1].cached_tokens = 50;
    return run;
}

TEST(Statistics, CountOnlyGoodAnswers) {
    const Statistics out = gather(some_run(), {});
    EXPECT_EQ(out.requests, 6u);
    EXPECT_EQ(out.answers, 3u);
    EXPECT_DOUBLE_EQ(out.ttft_ms.mean, 1500.0);
    EXPECT_DOUBLE_EQ(out.ttft_ms.p50, 1000.0);
    EXPECT_NEAR(out.tpot_ms.p50, 100.0, 1e-9);
    EXPECT_NEAR(out.tpot_ms.mean, (100.0 + 100.0 + 200.0) / 3.0, 1e-9);
    EXPECT_EQ(out.itl_ms.count, 30u);
    EXPECT_NEAR(out.e2e_ms.mean, 8500.0 / 3.0, 1e-9);
    EXPECT_EQ(out.prompt_tokens, 300);
    EXPECT_EQ(out.answer_tokens, 33);
    EXPECT_EQ(out.cached_tokens, 90);
    EXPECT_EQ(out.restored_tokens, std::nullopt);
    EXPECT_EQ(out.errors, (std::map<std::string, size_t>{{"HTTP 429", 2}, {"short answer", 1}}));
    EXPECT_EQ(out.first_error, "because of HTTP 429");
}

TEST(Statistics, AreKeptByRound) {
    const Statistics out = gather(some_run(), {});
    ASSERT_EQ(out.rounds.size(), 2u);
    EXPECT_EQ(out.rounds[0].ttft_ms.count, 2u);
    EXPECT_DOUBLE_EQ(out.rounds[0].ttft_ms.mean, 2000.0);
    EXPECT_DOUBLE_EQ(out.rounds[0].prompt_tokens_mean, 100.0);
    EXPECT_DOUBLE_EQ(out.rounds[1].ttft_ms.p99, 500.0);
}

TEST(Statistics, GoodAnswersKeepToAllGoals) {
    EXPECT_EQ(gather(some_run(), {0.0, 0.0}).good_answers, 3u);
    EXPECT_EQ(gather(some_run(), {1000.0, 0.0}).good_answers, 2u);
    EXPECT_EQ(gather(some_run(), {0.0, 150.0}).good_answers, 2u);
    EXPECT_EQ(gather(some_run(), {1000.0, 150.0}).good_answers, 1u);
    EXPECT_EQ(gather(some_run(), {1.0, 1.0}).good_answers, 0u);
}

TEST(Report, HoldsTheFiguresAsJson) {
    RunFacts facts;
    facts.workload = "vllm";
    facts.goals = {1000.0, 150.0};
    const auto json = to_json(facts, gather(some_run(), facts.goals));
    EXPECT_DOUBLE_EQ(json.at("ttft_ms").at("mean"), 1500.0);
    EXPECT_DOUBLE_EQ(json.at("requests_per_s"), 0.3);
    EXPECT_DOUBLE_EQ(json.at("output_tokens_per_s"), 3.3);
    EXPECT_DOUBLE_EQ(json.at("total_tokens_per_s"), 33.3);
    EXPECT_DOUBLE_EQ(json.at("goodput").at("requests_per_s"), 0.1);
    EXPECT_EQ(json.at("cached_tokens"), 90);
    EXPECT_TRUE(json.at("restored_tokens").is_null());
    EXPECT_EQ(json.at("rounds").size(), 2u);
    EXPECT_EQ(json.at("rounds")[1].at("round"), 2);
    EXPECT_EQ(json.at("errors").at("HTTP 429"), 2);
    EXPECT_EQ(json.at("turns_skipped"), 4);
}

TEST(Report, IsATableForPeople) {
    RunFacts facts;
    facts.workload = "vllm";
    facts.mode = "stateless";
    facts.model = "a-model";
    facts.url = "http://h:1";
    facts.flags = "--seed 9";
    facts.goals = {1000.0, 0.0};
    const std::string table = to_table(facts, gather(some_run(), facts.goals));
    EXPECT_THAT(table, HasSubstr("vllm, stateless, a-model at http://h:1\n"));
    EXPECT_THAT(table, HasSubstr("time to first token          1500.0     1000.0     2600.0     2960.0\n"));
    EXPECT_THAT(table, HasSubstr("0.20 requests/s, 2 of 6 with TTFT <= 1000 ms\n"));
    EXPECT_THAT(table, HasSubstr("300 prompt (90 cached), 33 answered\n"));
    EXPECT_THAT(table, HasSubstr("2 x HTTP 429, 1 x short answer; 4 turns skipped after them\n"));
    EXPECT_THAT(table, HasSubstr("--seed 9\n"));
}

TEST(Report, ARunWithoutAnswersHasNoFigures) {
    Replayed run;
    run.turns = {failure("timeout")};
    const Statistics out = gather(run, {});
    const auto json = to_json(RunFacts{}, out);
    EXPECT_TRUE(json.at("ttft_ms").is_null());
    EXPECT_EQ(json.at("requests_per_s"), 0.0);
    EXPECT_EQ(json.at("rounds").size(), 0u);
    EXPECT_THAT(to_table(RunFacts{}, out), HasSubstr("time to first token               -"));
}

}  // namespace
}  // namespace rondo::cli::multi_turn
