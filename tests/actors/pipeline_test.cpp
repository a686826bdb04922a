#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::must;
using testing::settings_of;
using testing::Stage;

/// Prompts of a conversation's turns: each begins with the turn before it, answer included.
struct Script {
    std::vector<std::vector<int32_t>> turns;  ///< new ids of each turn
};

std::vector<Script> scripts(int count, int64_t vocabulary, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Script> all(static_cast<size_t>(count));
    for (Script& script : all) {
        for (int turn = 0; turn < 3; ++turn) {
            std::vector<int32_t> ids(1 + random() % 40);
            for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
            script.turns.push_back(std::move(ids));
        }
    }
    return all;
}

constexpr int64_t answer_tokens = 20;

/// What the plain engine answers.
std::vector<std::vector<int32_t>> plain_answers(const Model& model, Device& device, const Script& script) {
    Generator::Options options;
    options.kv_type = DType::f32;
    options.context_tokens_max = 256;
    const auto generator = must(Generator::create(model, device, options));
    std::vector<int32_t> history;
    std::vector<std::vector<int32_t>> answers;
    for (const std::vector<int32_t>& ids : script.turns) {
        history.insert(history.end(), ids.begin(), ids.end());
        const auto kept = static_cast<size_t>(generator->keep_prefix(history));
        generator->begin_round();
        GenerateOptions how;
        how.tokens_max = answer_tokens;
        how.ignore_eos = true;
        answers.push_back(must(generator->generate(std::span(history).subspan(kept), how)).ids);
        history.insert(history.end(), answers.back().begin(), answers.back().end());
    }
    return answers;
}

class SameTokens : public ::testing::TestWithParam<int> {};

/// Everything in f32: the pipeline's answers are the plain engine's, token for token, however many conversations are
/// interleaved.
TEST_P(SameTokens, AsThePlainEngine) {
    const golden::Folder folder(golden::read_case("qwen2_gqa7_head64_tied"), DType::f32);
    const std::unique_ptr<Engine> engine = must(Engine::open(settings_of(
        {"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=64", "devices.cpu.threads=2"})));
    const auto device = must(open_device({DeviceKind::cpu, 0, 2}));
    const Model model = must(load_model(folder.path(), {}, *device));
    const std::vector<Script> all = scripts(GetParam(), model.spec.vocabulary, 7);
    std::vector<std::vector<int32_t>> histories(all.size());
    std::vector<std::vector<std::vector<int32_t>>> expected;
    for (const Script& script : all) expected.push_back(plain_answers(model, *device, script));
    for (size_t turn = 0; turn < 3; ++turn) {
        std::vector<std::future<Engine::Reply>> replies;
        for (size_t i = 0; i < all.size(); ++i) {
            histories[i].insert(histories[i].end(), all[i].turns[turn].begin(), all[i].turns[turn].end());
            replies.push_back(engine->ask(continue_ids(histories[i], answer_tokens)));
        }
        for (size_t i = 0; i < all.size(); ++i) {
            const Engine::Reply reply = replies[i].get();
            EXPECT_EQ(reply.end.outcome, TurnOutcome::length) << reply.end.error.message;
            EXPECT_EQ(reply.ids, expected[i][turn]) << "conversation " << i << ", turn " << turn;
            if (turn > 0) {
                EXPECT_GT(reply.end.usage.cached_tokens, 0);
            }
            histories[i].insert(histories[i].end(), reply.ids.begin(), reply.ids.end());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Conversations, SameTokens, ::testing::Values(1, 32));

TEST(Pipeline, AConversationsNextTurnComputesOnlyWhatIsNew) {
    Stage stage(settings_of({"memory.device_kv_mib=8", "devices.cpu.threads=1"}));
    Heard first, second;
    stage.engine().ask(chat("c", "The code of the red box is 4817."), first.callbacks());
    stage.run();
    stage.engine().ask(chat("c", "What is the code of the red box?"), second.callbacks());
    stage.run();
    ASSERT_EQ(second.ends.size(), 1U);
    EXPECT_EQ(second.text, "The code of the red box is 4817.");
    const TurnUsage &before = first.ends[0].usage, &usage = second.ends[0].usage;
    // All but the answer's last token, which opened this round.
    EXPECT_EQ(usage.cached_tokens, before.prompt_tokens + before.completion_tokens - 1);
    EXPECT_EQ(usage.cached_tokens + usage.recomputed_tokens, usage.prompt_tokens);
}

TEST(Pipeline, TenantsShareNothing) {
    Stage stage(settings_of({"memory.device_kv_mib=8", "devices.cpu.threads=1"}));
    const std::string text = "The code of the red box is 4817. What is the code of the red box?";
    Heard mine, again, other;
    stage.engine().ask(chat("", text), mine.callbacks());
    stage.run();
    stage.engine().ask(chat("", text), again.callbacks());
    Ask theirs = chat("", text);
    theirs.conversation.tenant = "somebody else";
    stage.engine().ask(std::move(theirs), other.callbacks());
    stage.run();
    EXPECT_GT(again.ends.at(0).usage.cached_tokens, 0);
    EXPECT_EQ(other.ends.at(0).usage.cached_tokens, 0);
    EXPECT_EQ(mine.text, other.text);
}

TEST(Pipeline, AllFinishWhenMemoryHoldsLittleMoreThanTheLargestConversation) {
    // 64 conversations of up to 232 tokens in a pool that holds one and a fifth of them.
    const golden::Folder folder(golden::read_case("llama_gqa2_head32_tied"), DType::f32);
    std::vector<std::string> overrides{"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=64",
                                       "devices.cpu.threads=1"};
    std::vector<std::vector<int32_t>> prompts(64), expected;
    std::mt19937_64 random(3);
    const auto prompt_tokens = 100;
    {
        Stage roomy(settings_of(overrides));
        for (auto& ids : prompts) {
            ids.resize(prompt_tokens);
            for (int32_t& id : ids)
                id = static_cast<int32_t>(random() % static_cast<uint64_t>(roomy.engine().model().spec.vocabulary));
            Heard heard;
            roomy.engine().ask(continue_ids(ids, 132), heard.callbacks());
            roomy.run();
            expected.push_back(heard.ids);
        }
    }
    overrides[2] = "memory.device_kv_mib=1";
    Stage tight(settings_of(overrides));
    const auto capacity = static_cast<int64_t>(tight.engine().pool().blocks_total(LayerGroup::upper)) * 16;
    SCOPED_TRACE("the pool holds " + std::to_string(capacity) + " tokens");
    std::vector<Heard> heard(64);
    int preemptions = 0;
    for (size_t i = 0; i < heard.size(); ++i) tight.engine().ask(continue_ids(prompts[i], 132), heard[i].callbacks());
    tight.run();
    for (int i = 0; i < 1000 && tight.engine().load().turns > 0; ++i) tight.pass(std::chrono::milliseconds(25));
    for (size_t i = 0; i < heard.size(); ++i) {
        ASSERT_EQ(heard[i].ends.size(), 1U) << i;
        EXPECT_EQ(heard[i].ends[0].outcome, TurnOutcome::length) << heard[i].ends[0].error.message;
        EXPECT_EQ(heard[i].ids, expected[i]) << i;
        preemptions += heard[i].ends[0].timings.preemptions;
    }
    EXPECT_GT(preemptions, 0);
    EXPECT_LT(capacity, 64 * 232 / 2);
}

/// A prompt that has begun is parked between two of its layers, and answered as if nothing had come between.
TEST(Pipeline, AnUrgentPromptPassesOneThatIsHalfWayThroughAChunk) {
    std::string text = "The code of the red box is 4817.";
    for (int i = 0; i < 12; ++i) text += " The sky was grey over the harbour and nobody went out that day.";
    text += " What is the code of the red box?";
    Stage stage(settings_of({"memory.device_kv_mib=16", "devices.cpu.threads=1", "pipeline.decode.step_ms_max=1"}));
    Heard undisturbed, slow, urgent;
    stage.engine().ask(chat("before", text), undisturbed.callbacks());
    stage.run();
    Ask first = chat("", text);
    first.conversation.tenant = "another";  // who shares no KV with the one before
    stage.engine().ask(std::move(first), slow.callbacks());
    const uint64_t begun = stage.engine().progress().done;
    while (stage.engine().progress().done == begun) ASSERT_TRUE(stage.run_one());
    Ask second = chat("urgent", "Hello!");
    second.priority = 1;
    stage.engine().ask(std::move(second), urgent.callbacks());
    while (urgent.text.empty()) ASSERT_TRUE(stage.run_one());
    EXPECT_TRUE(slow.ids.empty());
    stage.run();
    ASSERT_EQ(slow.ends.size(), 1U);
    EXPECT_EQ(slow.ends[0].usage.cached_tokens, 0);
    EXPECT_LE(slow.ends[0].usage.prompt_tokens, 512);  // one chunk
    EXPECT_EQ(slow.text, undisturbed.text);
}

}  // namespace
}  // namespace rondo
