#include "actors/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::Heard;
using testing::Stage;

/// The value of a figure without labels but the model's; NaN, which equals nothing, when there is none.
double value_of(Metrics& metrics, const std::string& name) {
    std::istringstream lines(metrics.text({}));
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("rondo:" + name + "{")) return std::stod(line.substr(line.rfind(' ')));
    return std::nan("");
}

TEST(Metrics, PromptsOfTurnsThatWereNeverLetInAreNotCounted) {
    Metrics metrics("m");
    TurnEnd served{.outcome = TurnOutcome::stop, .error = {}, .usage = {}, .timings = {}, .attention = {}};
    served.usage = {.prompt_tokens = 100, .completion_tokens = 7, .cached_tokens = 60, .recomputed_tokens = 40};
    metrics.turn_over(served, 1.0);
    TurnEnd withdrawn{.outcome = TurnOutcome::cancelled, .error = {}, .usage = {}, .timings = {}, .attention = {}};
    withdrawn.usage.prompt_tokens = 1000;
    metrics.turn_over(withdrawn, 1.0);
    EXPECT_EQ(value_of(metrics, "prompt_tokens_total"), 100);
    EXPECT_EQ(value_of(metrics, "prefix_cache_queries_total"), 100);
    EXPECT_EQ(value_of(metrics, "prefix_cache_hits_total"), 60);
    EXPECT_EQ(value_of(metrics, "prompt_tokens_recomputed_total"), 40);
    EXPECT_EQ(value_of(metrics, "generation_tokens_total"), 7);
}

/// A turn that waits for a place is cancelled: nothing of it was looked up.
TEST(Metrics, ATurnThatIsCancelledWhileItWaitsDoesNotLowerTheRateOfHits) {
    Stage stage(
        testing::settings_of({"memory.device_kv_mib=4", "devices.cpu.threads=1", "pipeline.decode.batch_max=1"}));
    Heard runs, waits;
    stage.engine().ask(testing::chat("a", "Hello!", 200), runs.callbacks());
    while (runs.text.empty()) ASSERT_TRUE(stage.run_one());
    const TurnId waiting = stage.engine().ask(testing::chat("b", "Good morning to you.", 10), waits.callbacks());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(stage.run_one());
    ASSERT_TRUE(runs.ends.empty());
    stage.engine().cancel(waiting);
    stage.run();
    ASSERT_EQ(runs.ends.size(), 1U);
    ASSERT_EQ(waits.ends.size(), 1U);
    EXPECT_EQ(waits.ends[0].outcome, TurnOutcome::cancelled);
    EXPECT_GT(waits.ends[0].usage.prompt_tokens, 0);
    EXPECT_EQ(value_of(stage.engine().metrics(), "prefix_cache_queries_total"), runs.ends[0].usage.prompt_tokens);
}

/// What turns report is their prompt's, once; what is computed again after preemptions is counted beside it.
TEST(Metrics, WhatIsComputedAgainAfterAPreemptionIsCounted) {
    const golden::Folder folder(golden::read_case("llama_gqa2_head32_tied"), DType::f32);
    Stage tight(testing::settings_of(
        {"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=1", "devices.cpu.threads=1"}));
    std::vector<Heard> heard(32);
    for (size_t i = 0; i < heard.size(); ++i) {
        std::vector<int32_t> ids(100, static_cast<int32_t>(i) + 3);
        tight.engine().ask(testing::continue_ids(std::move(ids), 132), heard[i].callbacks());
    }
    tight.run();
    for (int i = 0; i < 1000 && tight.engine().load().turns > 0; ++i) tight.pass(std::chrono::milliseconds(25));
    int64_t first = 0, prompts = 0;
    int preemptions = 0;
    for (const Heard& one : heard) {
        ASSERT_EQ(one.ends.size(), 1U);
        const TurnUsage& usage = one.ends[0].usage;
        EXPECT_EQ(usage.cached_tokens + usage.recomputed_tokens, usage.prompt_tokens);
        first += usage.recomputed_tokens;
        prompts += usage.prompt_tokens;
        preemptions += one.ends[0].timings.preemptions;
    }
    ASSERT_GT(preemptions, 0);
    Metrics& metrics = tight.engine().metrics();
    EXPECT_EQ(value_of(metrics, "num_preemptions_total"), preemptions);
    EXPECT_EQ(value_of(metrics, "prompt_tokens_total"), prompts);
    EXPECT_GT(value_of(metrics, "prompt_tokens_recomputed_total"), first);
    EXPECT_LT(value_of(metrics, "prompt_tokens_recomputed_total"), first + preemptions * 232);
}

}  // namespace
}  // namespace rondo
