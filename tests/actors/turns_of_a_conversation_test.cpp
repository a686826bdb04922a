// What a conversation keeps of its turns, and what its turns cost: faults that were planted there and that no other
// test noticed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/golden_models.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::must;
using testing::question;
using testing::right_answer;
using testing::settings_of;
using testing::small_settings;
using testing::Stage;

/// What the router answers to a request about a conversation: its rounds, or the error.
template <class... Request>
Result<ConversationInfo> ask_router(Stage& stage, Request... what) {
    std::optional<Result<ConversationInfo>> answer;
    // What is spawned takes an argument because CAF 0.17 goes through a null pointer for a function without one.
    const auto client = [&](caf::event_based_actor* self, int) {
        self->request(stage.inside().router(), caf::infinite, what...)
            .then([&](const ConversationInfoPtr& info) { answer = *info; },
                  [&](const caf::error& error) { answer = from_caf(error, "the router"); });
    };
    stage.system().spawn(client, 0);
    stage.run();
    if (!answer) return make_error(ErrorCode::internal, "no answer");
    return std::move(*answer);
}

Result<ConversationInfo> rounds_of(Stage& stage, const std::string& conversation) {
    return ask_router(stage, list_atom::value, ConversationName{"t", conversation});
}

/// As the engine asks, with a listener of the test's own.
listener_actor ask_by(Stage& stage, Ask ask, Heard& heard) {
    listener_actor listener = stage.system().spawn<TurnPort>(stage.inside().router(), heard.callbacks());
    ask.id = stage.engine().new_turn_id();
    ask.listener = listener;
    caf::anon_send(stage.inside().router(), ask_atom::value, AskPtr(std::make_shared<Ask>(std::move(ask))));
    return listener;
}

class TurnsOfAConversation : public ::testing::Test {
protected:
    Stage stage_{settings_of({testing::demo_pool(341), "devices.cpu.threads=1"})};
};

TEST_F(TurnsOfAConversation, WaitForNobodyWhoIsGone) {
    Heard first, gone, last;
    stage_.engine().ask(chat("c", question), first.callbacks());
    while (first.text.empty()) ASSERT_TRUE(stage_.run_one());
    const listener_actor listener = ask_by(stage_, chat("c", "Who asks this?", 4), gone);
    stage_.engine().ask(chat("c", "Hello!", 4), last.callbacks());
    while (stage_.inside().load().turns < 3) ASSERT_TRUE(stage_.run_one());
    ASSERT_TRUE(first.ends.empty());
    caf::anon_send_exit(listener, caf::exit_reason::kill);
    stage_.run();
    ASSERT_EQ(last.ends.size(), 1U);
    const auto kept = rounds_of(stage_, "c");
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_EQ(kept->rounds.size(), 2U);
    EXPECT_EQ(kept->rounds[1].asked.at(0).content, "Hello!");
}

/// A stop string ends an answer in the middle of what was computed.
TEST_F(TurnsOfAConversation, ContinueWhatWasSaidAndNotWhatWasComputed) {
    Heard first, second;
    Ask ask = chat("c", question);
    ask.options.stops = {" red"};
    stage_.engine().ask(std::move(ask), first.callbacks());
    stage_.run();
    ASSERT_EQ(first.text, "The code of the");
    stage_.engine().ask(chat("c", "Hello!", 4), second.callbacks());
    stage_.run();
    const std::vector<ChatMessage> said = {{"user", question}, {"assistant", first.text}, {"user", "Hello!"}};
    EXPECT_EQ(second.ends.at(0).usage.prompt_tokens,
              static_cast<int64_t>(must(stage_.inside().model().encode_chat(said)).size()));
}

TEST_F(TurnsOfAConversation, HoldTheirRoundsWhileTheyLast) {
    Heard first, second;
    stage_.engine().ask(chat("c", "Hello!", 4), first.callbacks());
    stage_.run();
    stage_.engine().ask(chat("c", question), second.callbacks());
    while (second.text.empty()) ASSERT_TRUE(stage_.run_one());
    std::vector<std::string> errors;
    const auto client = [&](caf::event_based_actor* self, int) {
        const auto refused = [&](const caf::error& error) { errors.push_back(from_caf(error, "the router").message); };
        const auto changed = [&](const ConversationInfoPtr&) { errors.emplace_back("changed"); };
        const ConversationName name{"t", "c"};
        self->request(stage_.inside().router(), caf::infinite, rewind_atom::value, name, int64_t{0})
            .then(changed, refused);
        self->request(stage_.inside().router(), caf::infinite, drop_atom::value, name, RoundList{0})
            .then(changed, refused);
    };
    stage_.system().spawn(client, 0);
    while (errors.size() < 2) ASSERT_TRUE(stage_.run_one());
    EXPECT_THAT(errors, ::testing::Each(::testing::HasSubstr("has a turn under way")));
    stage_.run();
    EXPECT_EQ(second.text, right_answer);
    EXPECT_EQ(must(rounds_of(stage_, "c")).rounds.size(), 2U);
}

/// Whoever has heard the end of a turn need not know that a stage still has it.
class ATurnThatDrains : public TurnsOfAConversation {
protected:
    /// Cancels a turn, takes its round back, and may remove the conversation, all before its stage can hand it back.
    /// What the second is answered.
    std::string take_back(bool and_remove) {
        const TurnId turn = stage_.engine().ask(chat("c", question), heard_.callbacks());
        while (heard_.ids.size() < 3 && stage_.run_one()) continue;
        stage_.engine().cancel(turn);
        std::string answer;
        const auto client = [&, this](caf::event_based_actor* self, int) {
            const router_actor router = stage_.inside().router();
            self->request(router, caf::infinite, rewind_atom::value, name_, int64_t{0})
                .then([&](const ConversationInfoPtr&) { answer = "done"; },
                      [&](const caf::error& error) { answer = from_caf(error, "the router").message; });
            if (and_remove) self->request(router, caf::infinite, remove_atom::value, name_).then([](bool) {});
        };
        stage_.system().spawn(client, 0);
        stage_.run();
        return answer;
    }

    const ConversationName name_{"t", "c"};
    Heard heard_;
};

TEST_F(ATurnThatDrains, LetsItsRoundBeTakenBack) {
    EXPECT_EQ(take_back(false), "done");
    EXPECT_TRUE(must(rounds_of(stage_, "c")).rounds.empty());
}

TEST_F(ATurnThatDrains, ChangesNothingOfAConversationThatIsRemoved) {
    EXPECT_THAT(take_back(true), ::testing::HasSubstr("removed"));
    EXPECT_EQ(rounds_of(stage_, "c").error().code, ErrorCode::not_found);
}

/// He may have asked again, and a second time another round would go.
TEST_F(ATurnThatDrains, IsNotTakenBackForWhomeverItTookTooLong) {
    const TurnId turn = stage_.engine().ask(chat("c", question), heard_.callbacks());
    while (heard_.ids.size() < 3 && stage_.run_one()) continue;
    testing::Busy busy(stage_);
    stage_.engine().cancel(turn);
    busy.run();
    std::vector<ErrorCode> answers;
    const auto client = [&, this](caf::event_based_actor* self, int) {
        self->request(stage_.inside().router(), caf::infinite, drop_atom::value, name_, RoundList{0})
            .then([&](const ConversationInfoPtr&) { ADD_FAILURE() << "it was done"; },
                  [&](const caf::error& error) { answers.push_back(from_caf(error, "the router").code); });
    };
    stage_.system().spawn(client, 0);
    busy.run();
    EXPECT_TRUE(answers.empty());
    busy.pass(std::chrono::seconds(11));
    EXPECT_EQ(answers, std::vector{ErrorCode::timeout});
    stage_.run();
    EXPECT_EQ(must(rounds_of(stage_, "c")).rounds.size(), 1U);
}

TEST_F(TurnsOfAConversation, AreRememberedAsFarAsTheyWereToldWhenCancelled) {
    Heard heard;
    const TurnId turn = stage_.engine().ask(chat("c", question), heard.callbacks());
    while (heard.ids.size() < 3) ASSERT_TRUE(stage_.run_one());
    stage_.engine().cancel(turn);
    stage_.run();
    ASSERT_EQ(heard.ends.at(0).outcome, TurnOutcome::cancelled);
    const ConversationInfo kept = must(rounds_of(stage_, "c"));
    ASSERT_EQ(kept.rounds.size(), 1U);
    EXPECT_EQ(kept.rounds[0].answer, heard.text);
    EXPECT_LT(heard.text.size(), right_answer.size());
    ASSERT_TRUE(kept.rounds[0].figures.has_value());
    EXPECT_EQ(kept.rounds[0].figures->outcome, TurnOutcome::cancelled);
    EXPECT_EQ(kept.rounds[0].figures->usage.completion_tokens, heard.ends[0].usage.completion_tokens);
    EXPECT_EQ(kept.rounds[0].figures->timings.decode, heard.ends[0].timings.decode);
}

TEST_F(TurnsOfAConversation, AreNotRememberedWhenNobodyWasToldBeforeTheyWereCancelled) {
    Heard first, cut;
    stage_.engine().ask(chat("c", "Hello!", 4), first.callbacks());
    stage_.run();
    Ask ask = chat("c", question);
    ask.told_at_end = true;
    const TurnId turn = stage_.engine().ask(std::move(ask), cut.callbacks());
    while (cut.ids.size() < 3) ASSERT_TRUE(stage_.run_one());
    stage_.engine().cancel(turn);
    stage_.run();
    ASSERT_EQ(cut.ends.at(0).outcome, TurnOutcome::cancelled);
    EXPECT_EQ(must(rounds_of(stage_, "c")).rounds.size(), 1U);
}

/// A turn that fails has begun no conversation: whoever goes on with it would go on without what was said.
TEST_F(TurnsOfAConversation, BeginItOnlyWhenTheyBecomeARound) {
    Heard stopped, second, third, again;
    Ask going_on = chat("c", "And now?", 4);
    going_on.goes_on = true;
    const TurnId turn = stage_.engine().ask(chat("c", question), stopped.callbacks());
    stage_.engine().cancel(turn);
    stage_.engine().ask(going_on, second.callbacks());  // while the first is under way
    stage_.run();
    ASSERT_EQ(stopped.ends.at(0).outcome, TurnOutcome::cancelled);
    EXPECT_TRUE(stopped.text.empty());
    EXPECT_EQ(second.ends.at(0).error.code, ErrorCode::not_found);
    EXPECT_EQ(rounds_of(stage_, "c").error().code, ErrorCode::not_found);
    EXPECT_EQ(stage_.inside().load().conversations, 0U);
    stage_.engine().ask(going_on, third.callbacks());
    stage_.run();
    EXPECT_EQ(third.ends.at(0).error.code, ErrorCode::not_found);
    EXPECT_THAT(third.ends.at(0).error.message, ::testing::HasSubstr("was never begun"));
    stage_.engine().ask(chat("c", question), again.callbacks());
    stage_.run();
    EXPECT_EQ(again.text, right_answer);
    EXPECT_EQ(must(rounds_of(stage_, "c")).rounds.size(), 1U);
}

TEST_F(TurnsOfAConversation, LeaveOneThatWasBegunBefore) {
    must(ask_router(stage_, create_atom::value, ConversationName{"t", "made"}, Preamble{}));
    Heard told;
    stage_.engine().ask(chat("told", "Hello!", 4), told.callbacks());
    stage_.run();
    must(ask_router(stage_, rewind_atom::value, ConversationName{"t", "told"}, int64_t{0}));
    for (const char* id : {"made", "told"}) {
        Heard stopped, other;
        stage_.engine().cancel(stage_.engine().ask(chat(id, question), stopped.callbacks()));
        stage_.run();
        ASSERT_EQ(stopped.ends.at(0).outcome, TurnOutcome::cancelled);
        Ask going_on = chat(id, question);
        going_on.goes_on = true;
        stage_.engine().ask(going_on, other.callbacks());
        stage_.run();
        EXPECT_EQ(other.text, right_answer) << id;
    }
}

TEST(Conversations, LeaveRoomForOthersWhenTheyAreDeleted) {
    // With keys, as those of several tenants are counted.
    Stage stage(small_settings({"server.conversations_max=4", "server.api_keys_file=keys"}));
    for (int i = 0; i < 20; ++i) {
        const ConversationName name{"t", "c" + std::to_string(i)};
        const auto made = ask_router(stage, create_atom::value, name, Preamble{});
        ASSERT_TRUE(made) << i << ": " << made.error().message;
        caf::anon_send(stage.inside().router(), remove_atom::value, name);
        stage.run();
    }
    EXPECT_EQ(stage.inside().load().conversations, 0U);
}

/// Who gave way is the next to go on: what it has computed is lost the sooner the longer it waits.
TEST(PreemptedTurns, GoOnBeforeOthersBegin) {
    const golden::Folder folder(golden::read_case("llama_gqa2_head32_tied"), DType::f32);
    Stage stage(settings_of({"model.path=" + folder.path(), "memory.kv_dtype=f32", "memory.device_kv_mib=1",
                             "devices.cpu.threads=1", "pipeline.decode.batch_max=16"}));
    std::vector<size_t> ended;
    int preemptions = 0;
    for (size_t i = 0; i < 32; ++i) {
        std::vector<int32_t> ids(100, static_cast<int32_t>(i));
        TurnCallbacks callbacks;
        callbacks.on_end = [&, i](const TurnEnd& end) {
            EXPECT_EQ(end.outcome, TurnOutcome::length) << end.error.message;
            EXPECT_EQ(end.usage.cached_tokens, 0) << "nobody else asks this; what it computed itself was not found";
            ended.push_back(i);
            preemptions += end.timings.preemptions;
        };
        stage.engine().ask(continue_ids(std::move(ids), 132), std::move(callbacks));
    }
    stage.run();
    for (int i = 0; i < 1000 && stage.inside().load().turns > 0; ++i) stage.pass(std::chrono::milliseconds(25));
    ASSERT_EQ(ended.size(), 32U);
    ASSERT_GT(preemptions, 0);
    // In the order in which they came, but for neighbours that end in one step or gave way to one another.
    for (size_t i = 0; i < ended.size(); ++i)
        EXPECT_LE(std::max(i, ended[i]) - std::min(i, ended[i]), 12U) << i << ": " << ended[i];
    std::string order;
    for (const size_t one : ended) order += std::to_string(one) + " ";
    RecordProperty("order", order);
}

/// A method that looks at the prompt's last rows must compute them, though all of their keys are known.
TEST(KnownPrompts, AreComputedAsFarAsTheirMethodLooks) {
    Stage stage(settings_of(testing::demo_in_f32(
        341, {"devices.cpu.threads=1", "pipeline.methods=[snapkv]", "pipeline.decode.attention.window=8",
              "pipeline.decode.attention.budget_tokens=32"})));
    std::vector<int32_t> ids(97);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 + i * 7 % 90);
    for (const std::string method : {"dense", "snapkv"}) {
        Heard heard[2];
        for (Heard& one : heard) {
            Ask ask = continue_ids(ids, 4);
            ask.method = method;
            stage.engine().ask(std::move(ask), one.callbacks());
            stage.run();
        }
        // Of six whole blocks the last is within the window.
        EXPECT_EQ(heard[1].ends.at(0).usage.cached_tokens, method == "dense" ? 96 : 80) << method;
        EXPECT_EQ(heard[1].ids, heard[0].ids) << method;
    }
}

}  // namespace
}  // namespace rondo
