// Turns that attend to some of their conversation's rounds: what they answer, and what becomes of their KV.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/conversation.hpp"
#include "actors/preamble.hpp"
#include "model/attention/round_attention.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::must;
using testing::settings_of;
using testing::Stage;

const std::vector<std::string> things_told = {
    "The code of the red box is 4817.",
    "The code of the blue box is 2230.",
    "My lamp is old.",
    "The code of the green door is 9911.",
    "Hello!",
    "The code of the black gate is 5555.",
    "The code of the white phone is 3141.",
    "Thank you.",
};
const std::string asks_for_red = "What is the code of the red box?",
                  asks_for_green = "What is the code of the green door?";

class ChosenRounds : public ::testing::Test {
protected:
    static std::vector<std::string> settings(size_t blocks, std::vector<std::string> more = {}) {
        more.insert(more.end(),
                    {"devices.cpu.threads=1", "pipeline.methods=[top_rounds, recent_rounds, loopserve, rondo]",
                     "pipeline.prefill.attention.min_tokens=0", "pipeline.decode.attention.budget_tokens=40",
                     "pipeline.decode.attention.cold_tokens=2", "pipeline.decode.attention.reselect_every=4",
                     "pipeline.decode.attention.observe=2"});
        return testing::demo_in_f32(blocks, std::move(more));
    }

    Heard hear(Ask ask, const std::string& method = {}) {
        Heard heard;
        ask.method = method;
        stage_.engine().ask(std::move(ask), heard.callbacks());
        stage_.run();
        EXPECT_EQ(heard.ends.size(), 1U);
        EXPECT_EQ(heard.ends.at(0).outcome, TurnOutcome::stop) << heard.ends.at(0).error.message;
        return heard;
    }
    /// A conversation that was told all this, densely; and it is remembered here.
    Conversation told(const std::string& name) {
        Conversation remembered(stage_.inside().model());
        for (const std::string& text : things_told) {
            const std::vector<ChatMessage> said{{"user", text}};
            const Conversation::Prompt prompt = must(remembered.prompt(said));
            const Heard heard = hear(chat(name, text));
            remembered.answered(said, heard.text, prompt, heard.ids);
        }
        return remembered;
    }
    void expect_all_blocks_back() { expect_all_blocks_back(stage_); }
    /// None is held but by what may be used again.
    static void expect_all_blocks_back(Stage& stage) {
        const KvPool& pool = stage.inside().pool();
        EXPECT_EQ(static_cast<int64_t>(pool.blocks_free()) + stage.inside().load().blocks_cached,
                  static_cast<int64_t>(pool.blocks_total()));
        EXPECT_EQ(pool.blocks_free(LayerGroup::lower), pool.blocks_free(LayerGroup::upper));
    }
    /// The answer of one device without actors, to these very ids; earlier rounds are dense.
    std::vector<int32_t> plain_answer(const Conversation::Prompt& prompt, const std::string& name) {
        const Model& model = stage_.inside().model();
        const auto& methods = stage_.engine().methods();
        const AttentionMethod& method = *std::ranges::find(methods, name, &AttentionMethod::name);
        const auto device = must(open_device({DeviceKind::cpu, 0, 1}));
        const auto generator = must(Generator::create(model, *device,
                                                      {.kv_type = DType::f32,
                                                       .context_tokens_max = 1024,
                                                       .prefill = method.prefill,
                                                       .decode = method.decode,
                                                       .rounds = method.rounds}));
        generator->plan_rounds(apart_from_preamble(prompt.round_ends));
        GenerateOptions how;
        how.tokens_max = 64;
        return must(generator->generate(prompt.ids, how)).ids;
    }

    Stage stage_{settings_of(settings(400))};
};

TEST_F(ChosenRounds, AnswerAsThePlainEngineDoes) {
    const Conversation remembered = told("c");
    for (const std::string& text : {asks_for_red, asks_for_green}) {
        for (const std::string method : {"top_rounds", "recent_rounds"}) {
            const Conversation::Prompt prompt = must(remembered.prompt({{"user", text}}));
            const Heard heard = hear(chat("c", text), method);
            EXPECT_EQ(heard.ids, plain_answer(prompt, method)) << method;
            const TurnEnd& end = heard.ends[0];
            EXPECT_EQ(end.attention.method, method);
            EXPECT_EQ(end.attention.rounds.earlier, 8);
            EXPECT_EQ(end.attention.rounds.chosen, 1);
            EXPECT_LT(end.attention.answer.density(), 0.75);
            EXPECT_EQ(end.usage.cached_tokens, prompt.round_ends.back()) << "all but the message";
            if (method == "top_rounds") {
                EXPECT_EQ(heard.text, text == asks_for_red ? "The code of the red box is 4817."
                                                           : "The code of the green door is 9911.");
                EXPECT_GT(end.attention.rounds.mass, 2.0 / 8);
            }
            expect_all_blocks_back();
            caf::anon_send(stage_.inside().router(), rewind_atom::value, ConversationName{"t", "c"}, int64_t{8});
            stage_.run();
        }
    }
}

/// Lines of the message and keys of the answer are chosen from the rounds that stay.
TEST_F(ChosenRounds, AreWhatLinesAndKeysAreChosenFrom) {
    const Conversation remembered = told("c");
    for (const std::string& text : {asks_for_red, asks_for_green}) {
        std::vector<double> densities;
        for (const std::string method : {"loopserve", "rondo"}) {
            const Conversation::Prompt prompt = must(remembered.prompt({{"user", text}}));
            const Heard heard = hear(chat("c", text), method);
            densities.push_back(heard.ends[0].attention.answer.density());
            EXPECT_GT(heard.ends[0].attention.selections, 0);
            if (method == "rondo") {
                EXPECT_EQ(heard.ids, plain_answer(prompt, method));
                EXPECT_EQ(heard.ends[0].attention.rounds.earlier, 8);
                EXPECT_EQ(heard.ends[0].attention.rounds.chosen, 1);
            }
            expect_all_blocks_back();
            caf::anon_send(stage_.inside().router(), rewind_atom::value, ConversationName{"t", "c"}, int64_t{8});
            stage_.run();
        }
        EXPECT_LT(densities[1], densities[0]) << "the steps before the first choice see fewer keys, too";
    }
}

/// Who sends the whole history has its rounds.
TEST_F(ChosenRounds, AreThoseOfAHistoryThatIsSentWhole) {
    const Conversation remembered = told("c");
    Ask whole = chat("", asks_for_red);
    whole.messages.clear();
    for (const Round& round : remembered.rounds()) {
        whole.messages.push_back(round.asked.front());
        whole.messages.push_back({"assistant", round.answer});
    }
    whole.messages.push_back({"user", asks_for_red});
    whole.conversation.tenant = "another";
    const Heard there = hear(chat("c", asks_for_red), "top_rounds"), here = hear(std::move(whole), "top_rounds");
    EXPECT_EQ(here.text, there.text);
    EXPECT_EQ(here.ends[0].attention.rounds.earlier, 8);
    EXPECT_EQ(here.ends[0].attention.rounds.chosen, 1);
    EXPECT_EQ(here.ends[0].usage.cached_tokens, 0);
}

/// A choice of keys may look at more queries than the message has, whatever is known of its history.
TEST(ChosenRoundsOfShortMessages, DoNotDependOnWhatIsCached) {
    Stage stage(settings_of(testing::demo_in_f32(
        400, {"devices.cpu.threads=1", "pipeline.methods=[rondo]", "pipeline.prefill.attention.min_tokens=1000",
              "pipeline.decode.attention.budget_tokens=40", "pipeline.decode.attention.cold_tokens=0",
              "pipeline.decode.attention.reselect_every=64", "pipeline.decode.attention.observe=16"})));
    std::vector<ChatMessage> history{{"system", "You are kind, and you answer in as few words as you can."}};
    std::vector<Heard> heard(2);
    std::vector<int64_t> cached;
    const auto ask = [&](Heard& one, const std::string& tenant, const std::string& method) {
        one = {};
        Ask whole = chat("", "");
        whole.conversation.tenant = tenant;
        whole.messages = history;
        whole.method = method;
        stage.engine().ask(std::move(whole), one.callbacks());
        stage.run();
        ASSERT_EQ(one.ends.size(), 1U);
    };
    for (const std::string& text : things_told) {
        history.push_back({"user", text});
        ask(heard[0], "warm", "dense");
        history.push_back({"assistant", heard[0].text});
    }
    history.push_back({"user", asks_for_green});
    ask(heard[0], "warm", "rondo");
    ask(heard[1], "cold", "rondo");
    EXPECT_EQ(heard[0].ids, heard[1].ids);
    EXPECT_GT(heard[0].ends[0].usage.cached_tokens, 0);
    EXPECT_EQ(heard[1].ends[0].usage.cached_tokens, 0);
    for (const Heard& one : heard) {
        EXPECT_EQ(one.ends[0].attention.rounds.earlier, 8) << "system prompts are no part of the first";
        EXPECT_GT(one.ends[0].attention.selections, 0);
    }
    EXPECT_EQ(heard[0].ends[0].attention.answer.attended, heard[1].ends[0].attention.answer.attended);
}

/// Others who begin alike need not wait for the answer, though its turn does without some rounds.
TEST_F(ChosenRounds, ShareThePromptWhenItIsComplete) {
    const Conversation remembered = told("c");
    Ask whole = chat("", "");
    whole.conversation.tenant = "another";
    whole.messages.clear();
    for (const Round& round : remembered.rounds()) {
        whole.messages.push_back(round.asked.front());
        whole.messages.push_back({"assistant", round.answer});
    }
    whole.messages.push_back({"user", asks_for_red});
    whole.method = "top_rounds";
    Heard first, second;
    stage_.engine().ask(whole, first.callbacks());
    while (first.ids.empty() && stage_.run_one()) {
    }
    ASSERT_TRUE(first.ends.empty());
    stage_.engine().ask(whole, second.callbacks());
    stage_.run();
    ASSERT_EQ(second.ends.size(), 1U);
    EXPECT_EQ(first.ends.at(0).usage.cached_tokens, 0);
    EXPECT_EQ(second.ends[0].usage.recomputed_tokens,
              first.ends[0].usage.prompt_tokens - second.ends[0].usage.cached_tokens);
    EXPECT_GT(second.ends[0].usage.cached_tokens, first.ends[0].usage.prompt_tokens / 2);
    EXPECT_EQ(second.ids, first.ids);
    expect_all_blocks_back();
}

/// What was computed without some rounds is never taken for what was computed with all.
TEST_F(ChosenRounds, DenseIsOneRequestAwayExactly) {
    Conversation remembered = told("c");
    const int64_t exact = must(remembered.prompt({{"user", asks_for_red}})).round_ends.back();
    const auto ask_both = [&](const std::string& text, const std::string& method) {
        const std::vector<ChatMessage> said{{"user", text}};
        const Conversation::Prompt prompt = must(remembered.prompt(said));
        const Heard heard = hear(chat("c", text), method);
        remembered.answered(said, heard.text, prompt, heard.ids);
        return std::pair(heard, prompt);
    };
    (void)ask_both(asks_for_red, "top_rounds");
    const auto [again, more] = ask_both(asks_for_green, "top_rounds");
    EXPECT_GT(again.ends[0].usage.cached_tokens, exact) << "the method's own KV serves its next turn";
    EXPECT_EQ(again.ends[0].usage.cached_tokens, more.round_ends.back());
    EXPECT_EQ(again.ends[0].attention.rounds.earlier, 9);
    const auto [dense, prompt] = ask_both(asks_for_red, "dense");
    EXPECT_EQ(dense.ends[0].usage.cached_tokens, exact) << "nothing behind the last dense turn";
    EXPECT_EQ(dense.ids, plain_answer(prompt, "dense"));
    EXPECT_EQ(dense.ends[0].attention.rounds.earlier, 0);
    const auto [other, _] = ask_both(asks_for_green, "recent_rounds");
    EXPECT_GE(other.ends[0].usage.cached_tokens, dense.ends[0].usage.prompt_tokens) << "dense KV serves every method";
}

/// Where there is nothing to choose from, a turn is dense, and everybody's.
TEST_F(ChosenRounds, AreAllThereAreOfAShortConversation) {
    for (const char* text : {"The code of the red box is 4817.", "The code of the blue box is 2230."}) {
        const Heard heard = hear(chat("c", text), "top_rounds");
        EXPECT_EQ(heard.ends[0].attention.rounds.earlier, 0);
        EXPECT_EQ(heard.ends[0].attention.answer.density(), 1.0);
    }
    const Heard dense = hear(chat("c", asks_for_red), "dense");
    EXPECT_GT(dense.ends[0].usage.cached_tokens, dense.ends[0].usage.prompt_tokens / 2);
    EXPECT_EQ(dense.text, "The code of the red box is 4817.");
}

TEST_F(ChosenRounds, AskedAgainChooseByTheWholeMessage) {
    told("c");
    const Heard first = hear(chat("c", asks_for_green), "top_rounds");
    caf::anon_send(stage_.inside().router(), rewind_atom::value, ConversationName{"t", "c"}, int64_t{8});
    stage_.run();
    const Heard again = hear(chat("c", asks_for_green), "top_rounds");
    EXPECT_EQ(again.ids, first.ids);
    EXPECT_EQ(again.ends[0].usage.cached_tokens, first.ends[0].usage.cached_tokens) << "the message is computed anew";
    EXPECT_EQ(again.ends[0].attention.rounds.mass, first.ends[0].attention.rounds.mass);
}

TEST_F(ChosenRounds, AreCountedAndTold) {
    told("c");
    (void)hear(chat("c", asks_for_red), "top_rounds");
    (void)hear(chat("c", asks_for_red), "dense");
    const std::string metrics = stage_.inside().metrics().text({});
    EXPECT_THAT(metrics, ::testing::ContainsRegex("rondo:rounds_total\\{[^}]*\\} 8\n"));
    EXPECT_THAT(metrics, ::testing::ContainsRegex("rondo:rounds_chosen_total\\{[^}]*\\} 1\n"));
    EXPECT_THAT(metrics, ::testing::ContainsRegex("rondo:rounds_mass_count\\{[^}]*\\} 1\n"));
}

/// Rounds come back from a disk, and are chosen among as others are.
TEST_F(ChosenRounds, ComeBackFromADisk) {
    const testing::TemporaryFolder folder;
    for (const bool again : {false, true}) {
        const auto engine = must(Engine::open(
            settings_of(settings(400, {"memory.disk.path=" + folder.path().string(), "memory.disk.min_tokens=1"}))));
        const auto ask = [&](const std::string& text, const std::string& method) {
            Ask one = chat("c", text);
            one.method = method;
            return engine->ask(std::move(one)).get();
        };
        if (!again)
            for (const std::string& text : things_told) (void)ask(text, "dense");
        const Engine::Reply reply = ask(again ? asks_for_green : asks_for_red, "top_rounds");
        EXPECT_EQ(reply.text, again ? "The code of the green door is 9911." : "The code of the red box is 4817.");
        EXPECT_EQ(reply.end.attention.rounds.earlier, again ? 9 : 8);
        EXPECT_EQ(reply.end.attention.rounds.chosen, 1);
        EXPECT_EQ(reply.end.usage.restored_tokens > 0, again);
        if (again) {
            EXPECT_GT(reply.end.usage.restored_tokens, reply.end.usage.recomputed_tokens);
            const Engine::Reply dense = ask(asks_for_red, "dense");
            EXPECT_EQ(dense.text, "The code of the red box is 4817.");
        }
    }
}

/// Turns wait, are put back and begin again: the answers are those of a machine with room.
TEST_F(ChosenRounds, SurviveMemoryThatIsShort) {
    const auto answers = [](size_t blocks) {
        Stage stage(settings_of(settings(blocks)));
        std::vector<Heard> heard(6);
        int preemptions = 0;
        std::vector<std::string> texts;
        for (size_t round = 0; round <= things_told.size(); ++round) {
            for (Heard& one : heard) one = {};
            const bool last = round == things_told.size();
            for (size_t i = 0; i < heard.size(); ++i) {
                Ask ask =
                    chat("c" + std::to_string(i), last ? asks_for_red : things_told[(round + i) % 8], last ? 200 : 64);
                ask.options.ignore_eos = last;
                ask.method = last ? "top_rounds" : "dense";
                stage.engine().ask(std::move(ask), heard[i].callbacks());
            }
            stage.run();
            for (int i = 0; i < 1000 && stage.inside().load().turns > 0; ++i) stage.pass(std::chrono::milliseconds(25));
            for (const Heard& one : heard) {
                EXPECT_EQ(one.ends.size(), 1U);
                EXPECT_NE(one.ends.at(0).outcome, TurnOutcome::failed) << one.ends.at(0).error.message;
                if (last) preemptions += one.ends.at(0).timings.preemptions;
                // The first round may be no longer than a block, which always stays.
                if (last) EXPECT_GE(one.ends.at(0).attention.rounds.earlier, 7);
            }
        }
        for (const Heard& one : heard) texts.push_back(one.text);
        expect_all_blocks_back(stage);
        return std::pair(texts, preemptions);
    };
    const auto [undisturbed, none] = answers(1200);
    const auto [pressed, some] = answers(110);
    EXPECT_EQ(none, 0);
    EXPECT_GT(some, 0);
    EXPECT_EQ(pressed, undisturbed);
}

}  // namespace
}  // namespace rondo
