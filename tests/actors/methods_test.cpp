// Turns that do not attend to everything: what they answer, what they may ask for, what becomes of their KV.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <span>

#include "actors/conversation.hpp"
#include "config/method_rows.hpp"
#include "tests/actors/evicted_conversations.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::EvictedConversations;
using testing::Heard;
using testing::must;
using testing::settings_of;
using testing::Stage;

/// The methods for answers whose rows are as `wanted`, in their order; never dense.
std::vector<std::string> answer_methods(bool (*wanted)(const MethodRow&)) {
    std::vector<std::string> names;
    for (const MethodRow& row : std::span(decode_method_rows).subspan(1))
        if (row.for_pipelines && wanted(row)) names.emplace_back(row.name);
    return names;
}

bool any_method(const MethodRow&) {
    return true;
}

bool gives_up(const MethodRow& row) {
    return row.gives_up;
}

/// Small enough to matter to prompts of some hundred tokens.
std::vector<std::string> small(std::vector<std::string> more, int reselect_every = 4) {
    std::string methods = "loopserve";
    for (const std::string& name : answer_methods(any_method)) methods += ", " + name;
    more.insert(more.end(), {"pipeline.methods=[" + methods + "]", "pipeline.prefill.attention.min_tokens=0",
                             "pipeline.prefill.attention.alpha=0.7", "pipeline.decode.attention.budget_tokens=40",
                             "pipeline.decode.attention.cold_tokens=2",
                             "pipeline.decode.attention.reselect_every=" + std::to_string(reselect_every),
                             "pipeline.decode.attention.observe=2", "pipeline.decode.attention.window=8"});
    return more;
}

/// What a method computes where that is not exact is kept apart by each of its settings: a disk outlives them.
TEST(MethodSpace, IsAnotherWhereASettingIs) {
    const auto spaces = [](std::vector<std::string> more) {
        more.emplace_back("pipeline.methods=[loopserve, snapkv]");
        const Settings settings = settings_of(more);
        std::vector<std::string> all;
        for (const AttentionMethod& method : attention_methods(settings.pipeline))
            all.push_back(method_space(method, {}, settings.pipeline));
        return all;
    };
    const std::vector<std::string> some = spaces({});
    EXPECT_EQ(some.at(0), "") << "what is exact is everybody's";
    EXPECT_NE(some.at(1), some.at(2));
    EXPECT_EQ(spaces({}), some);
    EXPECT_EQ(spaces({"memory.device_kv_mib=8", "pipeline.decode.batch_max=3"}), some);
    for (const char* change : {"pipeline.prefill.attention.alpha=0.7", "pipeline.decode.attention.budget_tokens=77",
                               "pipeline.decode.attention.window=9"}) {
        const std::vector<std::string> other = spaces({change});
        EXPECT_NE(other.at(1), some.at(1)) << change;
    }
}

constexpr int64_t answer_tokens = 24;

std::vector<int32_t> some_ids(uint64_t seed, int64_t vocabulary) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> ids(80 + random() % 100);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
    return ids;
}

class SameTokensAsThePlainEngine : public ::testing::TestWithParam<std::string> {};

/// Each conversation by another method, all at once; with and without lag.
TEST_P(SameTokensAsThePlainEngine, WhateverRunsBeside) {
    // Four layers, of which quest leaves two dense.
    const golden::Folder folder(golden::with_layers(golden::read_case("qwen2_gqa7_head64_tied"), 4), DType::f32);
    const int lag = std::stoi(GetParam());
    const int64_t tokens = lag < 4 ? answer_tokens : 3 * answer_tokens;  // so that several choices serve
    const Settings settings =
        settings_of(small({"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=64",
                           "devices.cpu.threads=2", "pipeline.decode.attention.lag_steps=" + GetParam()},
                          lag < 4 ? 4 : 16));
    const std::unique_ptr<Engine> engine = must(Engine::open(settings));
    const auto device = must(open_device({DeviceKind::cpu, 0, 2}));
    const Model model = must(load_model(folder.path(), {}, *device));
    std::vector<std::future<Engine::Reply>> replies;
    std::vector<std::vector<int32_t>> expected;
    std::vector<int32_t> dense_answer;
    for (size_t i = 0; i < 3 * engine->methods().size(); ++i) {
        const AttentionMethod& method = engine->methods()[i % engine->methods().size()];
        const std::vector<int32_t> ids = some_ids(i, model.spec.vocabulary);
        Generator::Options options;
        options.kv_type = DType::f32;
        options.context_tokens_max = 512;
        options.prefill = method.prefill;
        options.decode = method.decode;
        GenerateOptions how;
        how.tokens_max = tokens;
        how.ignore_eos = true;
        how.sampling.temperature = 1.0F;
        how.sampling.seed = i;
        expected.push_back(must(must(Generator::create(model, *device, options))->generate(ids, how)).ids);
        Ask ask = continue_ids(ids, tokens);
        ask.method = method.name;
        ask.options = how;
        replies.push_back(engine->ask(std::move(ask)));
    }
    for (size_t i = 0; i < replies.size(); ++i) {
        const std::string& method = engine->methods()[i % engine->methods().size()].name;
        const Engine::Reply reply = replies[i].get();
        EXPECT_EQ(reply.end.outcome, TurnOutcome::length) << reply.end.error.message;
        EXPECT_EQ(reply.ids, expected[i]) << "conversation " << i << " by " << method;
        EXPECT_EQ(reply.end.attention.method, method);
        EXPECT_EQ(reply.end.attention.given_up, 0);
        const bool by_keys = method != "dense";
        EXPECT_EQ(reply.end.attention.selections > 0, by_keys) << method;
        EXPECT_EQ(reply.end.attention.answer.density() < 0.75, by_keys) << method;
        EXPECT_EQ(reply.end.attention.prompt.density() < 1.0, method == "loopserve") << method;
    }
}

INSTANTIATE_TEST_SUITE_P(Lag, SameTokensAsThePlainEngine, ::testing::Values("0", "1", "3", "15"),
                         [](const auto& info) { return info.param; });

TEST(Methods, OnlyConfiguredOnesAreServed) {
    Stage stage(settings_of({"preset=loopserve", "pipeline.methods=[snapkv]", testing::demo_pool(170)}));
    std::vector<std::string> names;
    for (const AttentionMethod& method : stage.engine().methods()) names.push_back(method.name);
    EXPECT_THAT(names, ::testing::ElementsAre("loopserve", "dense", "snapkv"));
    Heard heard;
    Ask ask = chat("c", "Hello");
    ask.method = "quest";
    stage.engine().ask(std::move(ask), heard.callbacks());
    stage.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ends[0].error.message, "method is \"quest\", must be loopserve, dense or snapkv");
}

class OneConversation : public ::testing::Test {
protected:
    Heard ask(const std::string& method, const std::string& text) {
        Heard heard;
        Ask ask = chat("c", text, 48);
        ask.method = method;
        stage_.engine().ask(std::move(ask), heard.callbacks());
        stage_.run();
        EXPECT_EQ(heard.ends.size(), 1U);
        return heard;
    }
    int64_t free_blocks() { return static_cast<int64_t>(stage_.inside().pool().blocks_free(LayerGroup::upper)); }

    Stage stage_{settings_of(small(testing::demo_in_f32(170, {"devices.cpu.threads=1"})))};
};

/// What was not computed exactly is never taken for what was.
TEST_F(OneConversation, DenseIsOneRequestAwayExactly) {
    const Heard first = ask("snapkv", "The code of the red box is 4817. The code of the blue box is 2230.");
    const Heard sparse = ask("snapkv", "What is the code of the red box?");
    EXPECT_GT(sparse.ends[0].usage.cached_tokens, 0);
    const Heard dense = ask("dense", "What is the code of the blue box?");
    EXPECT_GT(dense.ends[0].usage.cached_tokens, 0) << "the first prompt";
    EXPECT_LE(dense.ends[0].usage.cached_tokens, first.ends[0].usage.prompt_tokens);
    EXPECT_EQ(dense.text, "The code of the blue box is 2230.");
    const Heard again = ask("dense", "What is the code of the red box?");
    EXPECT_EQ(again.ends[0].usage.cached_tokens,
              dense.ends[0].usage.prompt_tokens + dense.ends[0].usage.completion_tokens - 1);
}

/// However much of its prompt is known: the queries that choose are the last ones of the prompt.
TEST_F(OneConversation, AKnownPromptIsChosenFromAsANewOne) {
    std::string text = "The code of the red box is 4817. The code of the blue box is 2230.";
    for (int i = 0; i < 3; ++i) text += " The sky was grey over the harbour and nobody went out that day.";
    text += " What is the code of the red box?";
    const Heard first = ask("snapkv", text);
    caf::anon_send(stage_.inside().router(), rewind_atom::value, ConversationName{"t", "c"}, int64_t{0});
    stage_.run();
    const Heard again = ask("snapkv", text);
    EXPECT_EQ(first.ends[0].attention.selections, 1);
    EXPECT_GT(again.ends[0].usage.cached_tokens, 0);
    EXPECT_GE(again.ends[0].usage.recomputed_tokens, 8);  // the window
    EXPECT_EQ(again.text, first.text);
}

/// A turn that gives keys up leaves its prompt for the next one, which computes the answer anew; and every block that
/// is not kept for reuse comes back.
TEST_F(OneConversation, WhatWasGivenUpIsComputedAgain) {
    const auto all = static_cast<int64_t>(stage_.inside().pool().blocks_total(LayerGroup::upper));
    std::string long_text = "The code of the red box is 4817.";
    for (int i = 0; i < 6; ++i) long_text += " The sky was grey over the harbour and nobody went out that day.";
    for (const std::string& method : answer_methods(gives_up)) {
        const Heard first = ask(method, long_text + " Said to " + method + ".");
        ASSERT_EQ(first.ends[0].attention.selections, 1) << method;
        const TurnUsage before = first.ends[0].usage;
        const Heard second = ask(method, "What is the code of the red box?");
        const TurnUsage usage = second.ends[0].usage;
        EXPECT_GT(usage.cached_tokens, before.prompt_tokens - 17) << method;  // all full blocks of its prompt
        EXPECT_LE(usage.cached_tokens, before.prompt_tokens) << method;
        EXPECT_EQ(free_blocks() + stage_.inside().load().blocks_cached, all) << method;
        caf::anon_send(stage_.inside().router(), rewind_atom::value, ConversationName{"t", "c"}, int64_t{0});
        stage_.run();
    }
}

INSTANTIATE_TEST_SUITE_P(Methods, EvictedConversations, ::testing::ValuesIn(answer_methods(gives_up)),
                         [](const auto& info) { return info.param; });

TEST_P(EvictedConversations, AnswerAfterAForkAndARewindAsFreshOnesWould) {
    std::string facts;
    for (int i = 0; i < 5; ++i)
        facts +=
            "We walked along the river for a while. It was a slow afternoon. The train was late again. Nobody noticed "
            "the time. ";
    Talk first = talk("c");
    ask(first, facts + "The code of the red box is 4817.");
    const TurnUsage second = ask(first, "Thank you.");
    Talk other = fork(first, "other");
    rewind(first, 1);
    const TurnUsage forked = ask(other, "What is the code of the red box?");
    EXPECT_GT(forked.cached_tokens, second.prompt_tokens - 17);  // all full blocks of the prompt before it
    EXPECT_LE(forked.cached_tokens, second.prompt_tokens);       // and nothing of the answer, whose prompt had gaps
    EXPECT_GT(ask(first, "What is the code of the red box?").cached_tokens, 0);
    // They go on apart, also from their beginnings.
    ask(other, "The code of the blue box is 2230.");
    ask(first, "The code of the blue box is 9051.");
    Talk third = fork(other, "third");
    rewind(other, 2);
    ask(other, "What is the code of the red box?");
    ask(third, "What is the code of the blue box?");
    ask(first, "What is the code of the blue box?");
    rewind(first, 0);
    ask(first, facts + "The code of the green box is 1366.");
}

TEST_P(EvictedConversations, LeaveNoBlockBehindWhenTheyAreDeleted) {
    std::string text = "The code of the red box is 4817.";
    for (int i = 0; i < 12; ++i) text += " The market was full of people. A dog barked twice and fell asleep.";
    Talk first = talk("c");
    ask(first, text);
    Talk other = fork(first, "other");
    ask(other, "Thank you.");
    rewind(first, 0);
    ask(first, text);
    for (const Talk& one : {first, other}) remove(one);
    EXPECT_EQ(stage_.inside().load().conversations, 0U);
    expect_all_blocks_back();
    // What may be used again is held by nobody else, and can make way.
    const auto all = static_cast<int64_t>(pool().blocks_total(LayerGroup::upper));
    caf::anon_send(stage_.pipeline().stages.cache, room_atom::value, BlockCounts{0, all});
    stage_.run();
    EXPECT_EQ(static_cast<int64_t>(pool().blocks_free(LayerGroup::upper)), all);
    EXPECT_EQ(stage_.inside().load().blocks_cached, 0);
}

/// Turns wait, are put back, attend to keys where they lie for want of room for copies, or to everything: but all
/// finish, and every block comes back.
TEST(Methods, AllFinishWhenMemoryIsShort) {
    const golden::Folder folder(golden::read_case("llama_gqa2_head32_tied"), DType::f32);
    Stage stage(settings_of(small(
        {"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=1", "devices.cpu.threads=1"})));
    const KvPool& pool = stage.inside().pool();
    const auto& methods = stage.engine().methods();
    std::vector<Heard> heard(4 * methods.size());
    for (size_t i = 0; i < heard.size(); ++i) {
        std::vector<int32_t> ids = some_ids(i, stage.inside().model().spec.vocabulary);
        ids.resize(70);  // short prompts are let in, and outgrow the pool together
        Ask ask = continue_ids(std::move(ids), 170);
        ask.method = methods[i % methods.size()].name;
        stage.engine().ask(std::move(ask), heard[i].callbacks());
    }
    stage.run();
    for (int i = 0; i < 1000 && stage.inside().load().turns > 0; ++i) stage.pass(std::chrono::milliseconds(25));
    int preemptions = 0;
    for (const Heard& one : heard) {
        ASSERT_EQ(one.ends.size(), 1U);
        EXPECT_EQ(one.ends[0].outcome, TurnOutcome::length) << one.ends[0].error.message;
        EXPECT_EQ(one.ids.size(), 170U) << one.ends[0].attention.method;
        preemptions += one.ends[0].timings.preemptions;
    }
    EXPECT_GT(preemptions, 0);
    EXPECT_EQ(static_cast<int64_t>(pool.blocks_free(LayerGroup::upper)) + stage.inside().load().blocks_cached,
              static_cast<int64_t>(pool.blocks_total(LayerGroup::upper)));
}

/// A budget of its own makes the answer that the engine would give if it were configured.
TEST(Methods, ATurnMayAskForItsBudget) {
    const golden::Folder folder(golden::read_case("llama_gqa2_head32_tied"), DType::f32);
    const auto open = [&](const std::string& budget) {
        return must(Engine::open(
            settings_of({"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=16",
                         "devices.cpu.threads=1", "pipeline.methods=[snapkv, quest]", "pipeline.budget_tokens_max=80",
                         "pipeline.decode.attention.window=8", "pipeline.decode.attention.budget_tokens=" + budget})));
    };
    const auto engine = open("40"), other = open("64");
    const auto prompt_of = [&](const std::string& method) {
        return some_ids(method == "quest" ? 7 : 8, inside(*engine).model().spec.vocabulary);
    };
    const auto answer = [&](Engine& engine, const std::string& method, int64_t budget,
                            const std::vector<int32_t>& behind = {}) {
        std::vector<int32_t> ids = prompt_of(method);
        ids.insert(ids.end(), behind.begin(), behind.end());
        Ask ask = continue_ids(std::move(ids), answer_tokens);
        ask.method = method;
        ask.budget_tokens = budget;
        return engine.ask(std::move(ask)).get();
    };
    for (const char* method : {"snapkv", "quest"}) {
        const Engine::Reply configured = answer(*other, method, 0), asked = answer(*engine, method, 64);
        EXPECT_EQ(asked.ids, configured.ids) << method;
        EXPECT_EQ(asked.end.attention.budget_tokens, 64);
        EXPECT_EQ(asked.end.attention.answer.density(), configured.end.attention.answer.density()) << method;
        // KV of an answer that attended otherwise is not taken for this one's. The prompt's is exact.
        const int64_t prompt = std::ssize(prompt_of(method));
        if (method == std::string("quest")) {  // the other one gives keys up
            EXPECT_GT(answer(*engine, method, 64, asked.ids).end.usage.cached_tokens, prompt);
        }
        EXPECT_LE(answer(*engine, method, 0, asked.ids).end.usage.cached_tokens, prompt) << method;
    }
    const std::vector<int32_t> ids = answer(*engine, "quest", 0).ids;
    EXPECT_GT(answer(*engine, "quest", 40, ids).end.usage.cached_tokens, std::ssize(prompt_of("quest")))
        << "the configured budget by its number";
    const auto refusal = [&](const std::string& method, int64_t budget) {
        return answer(*engine, method, budget).end.error.message;
    };
    EXPECT_THAT(refusal("snapkv", 81), ::testing::HasSubstr("must be 8 to 80"));
    EXPECT_THAT(refusal("snapkv", -1), ::testing::HasSubstr("must be 8 to 80"));
    EXPECT_THAT(refusal("quest", 47), ::testing::HasSubstr("must be 48 to 80")) << "three pages";
    EXPECT_THAT(refusal("dense", 64), ::testing::HasSubstr("has no budget"));
    EXPECT_EQ(answer(*other, "snapkv", 64).end.outcome, TurnOutcome::length) << "what is configured may be asked for";
}

}  // namespace
}  // namespace rondo
