#include "actors/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "memory/kv_pool.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/memory/fake_device.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::FakeDevice;
using testing::Heard;
using testing::Stage;

/// The value of a figure without labels but the model's; NaN, which equals nothing, when there is none.
double value_of(Metrics& metrics, const std::string& name) {
    std::istringstream lines(metrics.text({}));
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("rondo:" + name + "{")) return std::stod(line.substr(line.rfind(' ')));
    return std::nan("");
}

/// How many observations of a histogram are at most `bound`, one of its bounds.
double at_most(Metrics& metrics, const std::string& name, const std::string& bound) {
    std::istringstream lines(metrics.text({}));
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("rondo:" + name + "_bucket{") && line.find("le=\"" + bound + "\"") != std::string::npos)
            return std::stod(line.substr(line.rfind(' ')));
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
    Stage stage(testing::small_settings({"pipeline.decode.batch_max=1"}));
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
    EXPECT_EQ(value_of(stage.inside().metrics(), "prefix_cache_queries_total"), runs.ends[0].usage.prompt_tokens);
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
    for (int i = 0; i < 1000 && tight.inside().load().turns > 0; ++i) tight.pass(std::chrono::milliseconds(25));
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
    Metrics& metrics = tight.inside().metrics();
    EXPECT_EQ(value_of(metrics, "num_preemptions_total"), preemptions);
    EXPECT_EQ(value_of(metrics, "prompt_tokens_total"), prompts);
    EXPECT_GT(value_of(metrics, "prompt_tokens_recomputed_total"), first);
    EXPECT_LT(value_of(metrics, "prompt_tokens_recomputed_total"), first + preemptions * 232);
}

/// Turns of one long prompt, each by a method of its own and computed from the first token on.
class AttentionMetrics : public ::testing::Test {
protected:
    static constexpr int64_t budget = 40;

    TurnEnd ask(const std::string& method) {
        std::string text = "The code of the red box is 4817.";
        for (int i = 0; i < 5; ++i) text += " The sky was grey over the harbour and nobody went out that day.";
        Ask ask = testing::chat("", text, 24);
        ask.options.ignore_eos = true;
        ask.method = method;
        Heard heard;
        stage_.engine().ask(std::move(ask), heard.callbacks());
        stage_.run();
        TurnEnd end = heard.ends.at(0);
        EXPECT_EQ(end.outcome, TurnOutcome::length) << end.error.message;
        EXPECT_EQ(end.attention.method, method);
        EXPECT_GT(end.usage.prompt_tokens, budget);
        return end;
    }

    double value(const std::string& name) { return value_of(stage_.inside().metrics(), name); }
    double lags_at_most(const std::string& steps) {
        return at_most(stage_.inside().metrics(), "key_selection_lag_steps", steps);
    }
    std::vector<double> figures() {
        std::vector<double> all;
        for (const char* name :
             {"prompt_attention_entries_total", "prompt_attention_entries_attended_total",
              "answer_attention_entries_total", "answer_attention_entries_attended_total", "key_selections_total",
              "key_selections_given_up_total", "key_selections_waited_total", "key_selection_lag_steps_count",
              "key_selection_lag_steps_sum", "prompt_attention_mass_count", "prompt_attention_mass_sum",
              "answer_attention_mass_count", "answer_attention_mass_sum"})
            all.push_back(value(name));
        return all;
    }

    /// What the steps of an answer could attend to, in all layers and KV heads: the first token is the prompt's.
    double entries_of(const TurnEnd& end, int64_t steps) {
        int64_t keys = 0;
        for (int64_t step = 1; step <= steps; ++step) keys += end.usage.prompt_tokens + step;
        return static_cast<double>(keys * lists_);
    }

    Stage stage_{testing::settings_of(
        {testing::demo_pool(341), "devices.cpu.threads=1", "pipeline.methods=[loopserve, streaming_llm]",
         "pipeline.prefill.attention.min_tokens=0", "pipeline.prefill.attention.alpha=0.7",
         "pipeline.decode.attention.budget_tokens=" + std::to_string(budget), "pipeline.decode.attention.cold_tokens=2",
         "pipeline.decode.attention.reselect_every=4", "pipeline.decode.attention.observe=2",
         "pipeline.decode.attention.lag_steps=3"})};
    const ModelSpec& spec_ = stage_.inside().model().spec;
    const int64_t lists_ = int64_t{spec_.layers} * spec_.kv_heads;
};

TEST_F(AttentionMetrics, OfDenseTurnsAreNone) {
    ask("dense");
    EXPECT_THAT(figures(), ::testing::Each(0.0));
    ask("loopserve");
    const std::vector<double> before = figures();
    ask("dense");
    EXPECT_EQ(figures(), before);
}

TEST_F(AttentionMetrics, SayHowLinesAndKeysChosenAgainAndAgainAttended) {
    const TurnEnd end = ask("loopserve");
    const int64_t prompt = end.usage.prompt_tokens, steps = end.usage.completion_tokens - 1;
    const auto each_layer = static_cast<double>(spec_.heads * prompt * (prompt + 1) / 2);
    const double prompt_entries = value("prompt_attention_entries_total");
    EXPECT_EQ(end.usage.cached_tokens, 0);
    EXPECT_GE(prompt_entries, each_layer);  // some layers are counted, those whole
    EXPECT_LE(prompt_entries, each_layer * spec_.layers);
    EXPECT_EQ(std::fmod(prompt_entries, each_layer), 0.0);
    EXPECT_GT(value("prompt_attention_entries_attended_total"), 0.0);
    EXPECT_LT(value("prompt_attention_entries_attended_total"), prompt_entries);
    EXPECT_EQ(value("prompt_attention_mass_count"), 1.0);
    EXPECT_GE(value("prompt_attention_mass_sum"), 0.699);  // alpha
    EXPECT_LE(value("prompt_attention_mass_sum"), 1.001);

    const double answer_entries = value("answer_attention_entries_total");
    EXPECT_EQ(answer_entries, entries_of(end, steps));
    EXPECT_GE(value("answer_attention_entries_attended_total"), static_cast<double>(lists_ * budget * steps));
    EXPECT_LT(value("answer_attention_entries_attended_total"), answer_entries);
    EXPECT_EQ(value("answer_attention_mass_count"), 1.0);
    EXPECT_GT(value("answer_attention_mass_sum"), 0.1);
    EXPECT_LE(value("answer_attention_mass_sum"), 1.001);

    // After 2 steps, and every 4 from there on.
    EXPECT_GE(value("key_selections_total"), static_cast<double>((steps - 2) / 4));
    EXPECT_LE(value("key_selections_total"), static_cast<double>((steps - 2) / 4 + 1));
    EXPECT_EQ(value("key_selections_given_up_total"), 0.0);
    EXPECT_GE(value("key_selections_waited_total"), 0.0);
    EXPECT_LE(value("key_selections_waited_total"), value("key_selections_total"));
    EXPECT_EQ(lags_at_most("2"), 0.0);
    EXPECT_EQ(lags_at_most("4"), 1.0);
    EXPECT_EQ(value("key_selection_lag_steps_sum"), 3.0);
    ask("loopserve");
    EXPECT_EQ(value("key_selection_lag_steps_count"), 2.0);
    EXPECT_EQ(lags_at_most("4"), 2.0);
}

/// Its end is told at once; what its stage had done by then is counted when that has let go of it.
TEST_F(AttentionMetrics, OfACancelledAnswerAreWhatItDid) {
    Ask asked = testing::chat("", "The code of the red box is 4817. The sky was grey over the harbour that day.", 200);
    asked.options.ignore_eos = true;
    asked.method = "loopserve";
    Heard heard;
    const TurnId id = stage_.engine().ask(std::move(asked), heard.callbacks());
    while (heard.ids.size() < 12) ASSERT_TRUE(stage_.run_one());
    stage_.engine().cancel(id);
    stage_.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ends[0].outcome, TurnOutcome::cancelled);
    EXPECT_GE(value("answer_attention_entries_total"), entries_of(heard.ends[0], 11));
    EXPECT_GE(value("key_selections_total"), 1.0);
    EXPECT_EQ(value("key_selection_lag_steps_count"), 1.0);
}

/// A window that slides is chosen once, by nothing, and at once; every step attends to just the budget.
TEST_F(AttentionMetrics, SayHowASlidingWindowAttended) {
    const TurnEnd end = ask("streaming_llm");
    const int64_t steps = end.usage.completion_tokens - 1;
    EXPECT_EQ(value("answer_attention_entries_total"), entries_of(end, steps));
    EXPECT_EQ(value("answer_attention_entries_attended_total"), static_cast<double>(lists_ * budget * steps));
    EXPECT_EQ(value("key_selections_total"), 1.0);
    EXPECT_EQ(lags_at_most("0"), 1.0);
    EXPECT_EQ(value("answer_attention_mass_count"), 0.0);
    EXPECT_EQ(value("prompt_attention_entries_total"), 0.0);
    EXPECT_EQ(value("prompt_attention_mass_count"), 0.0);
}

TEST(Metrics, BlocksOfAllLayerGroupsCount) {
    FakeDevice device;
    // Layers above the watershed, layers below it, and both.
    for (const int lower_layers : {0, 2, 1}) {
        const KvShape shape{.layers = 2, .lower_layers = lower_layers, .kv_heads = 1, .atom = {DType::f32, 4}};
        const auto pool = std::move(KvPool::create(device, shape, {30, 10})).value();
        const LayerGroup group = lower_layers == 0 ? LayerGroup::upper : LayerGroup::lower;
        const KvLease lease = std::move(pool->acquire(group, 5)).value();
        Metrics::Now now;
        now.tell_blocks(pool->blocks_total(), pool->blocks_free(), 2);
        EXPECT_DOUBLE_EQ(now.kv_usage, lower_layers == 0 ? 5.0 / 10 : lower_layers == 2 ? 5.0 / 30 : 5.0 / 40);
        EXPECT_EQ(now.blocks_in_turns, 3);
    }
    Metrics::Now none;
    none.tell_blocks(0, 0, 0);
    EXPECT_EQ(none.kv_usage, 0.0) << "no blocks, none of which is used";
    EXPECT_EQ(none.blocks_in_turns, 0.0);
}

TEST(Metrics, DevicesSayWhatTheyAre) {
    Metrics metrics("m");
    metrics.device("cpu", "cpu (2 threads, avx512, bf16 in floats)");
    const std::string text = metrics.text({});
    EXPECT_NE(
        text.find(
            "rondo:device_info{device=\"cpu\",model_name=\"m\",what=\"cpu (2 threads, avx512, bf16 in floats)\"} 1"),
        std::string::npos)
        << text;
}

/// What only grows is a counter, or rates and increases of it would be nonsense after a restart.
TEST(Metrics, WhatOnlyGrowsIsACounter) {
    Metrics metrics("m");
    Metrics::Now now;
    now.refused = 3;
    now.left_by_age = 1;
    const auto refused = [&](const std::string& text) {
        const size_t at = text.find("\nrondo:requests_refused_total{");
        return std::stod(text.substr(text.find(' ', at + 1)));
    };
    EXPECT_EQ(refused(metrics.text(now)), 3);
    EXPECT_EQ(refused(metrics.text(now)), 3) << "asked for twice, counted once";
    now.refused = 5;
    EXPECT_EQ(refused(metrics.text(now)), 5);
    now.refused = 4;  // an answer that was overtaken
    EXPECT_EQ(refused(metrics.text(now)), 5);
    std::istringstream lines(metrics.text(now));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("# TYPE ")) continue;
        const std::string name = line.substr(7, line.rfind(' ') - 7);
        EXPECT_EQ(line.ends_with(" counter"), name.ends_with("_total")) << line;
    }
}

}  // namespace
}  // namespace rondo
