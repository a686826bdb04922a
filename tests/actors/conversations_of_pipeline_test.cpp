// How many conversations a pipeline remembers, what a list tells of them, and who leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::settings_of;
using testing::small_settings;
using testing::Stage;

TEST(ConversationsOfAPipeline, RefuseTurnsAndCountThem) {
    Stage stage(small_settings());
    std::vector<Heard> heard(10);
    for (Heard& one : heard) stage.engine().ask(chat("c", "Hello!", 1), one.callbacks());
    stage.run();
    EXPECT_EQ(std::ranges::count_if(
                  heard, [](const Heard& one) { return one.ends.at(0).error.code == ErrorCode::overloaded; }),
              1);
    EXPECT_EQ(stage.inside().load().refused, 1U);
}

TEST(ConversationsOfAPipeline, AreListedWithTheirRoundsCounted) {
    Stage stage(small_settings());
    Heard heard;
    stage.engine().ask(chat("c", "Hello!", 1), heard.callbacks());
    stage.run();
    ConversationPagePtr page;
    const auto ask = [&page](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, list_atom::value, PageOf{"t", "", 10})
            .then([&page](const ConversationPagePtr& all) { page = all; });
    };
    const auto listed = [&] {
        stage.system().spawn(ask, stage.engine().front());
        stage.run();
        return page->conversations.at(0).figures;
    };
    const int64_t tokens = heard.ends.at(0).usage.prompt_tokens + heard.ends.at(0).usage.completion_tokens;
    EXPECT_EQ(listed().rounds, 1);
    EXPECT_EQ(listed().tokens, tokens);
    EXPECT_GT(listed().bytes, 0U);
    EXPECT_EQ(stage.inside().load().conversation_bytes, listed().bytes);
    caf::anon_send(stage.inside().router(), rewind_atom::value, ConversationName{"t", "c"}, int64_t{0});
    stage.run();
    EXPECT_EQ(listed().rounds, 0);
    EXPECT_EQ(listed().tokens, 0);
}

/// Whoever was not used for long leaves; its KV may be found again, and whoever goes on is told.
TEST(ConversationsOfAPipeline, LeaveByAge) {
    Stage stage(small_settings({"server.conversation_idle_s=60"}));
    const auto turn = [&](const std::string& conversation, bool goes_on) {
        Heard heard;
        Ask asked = chat(conversation, "Hello!", 1);
        asked.goes_on = goes_on;
        stage.engine().ask(std::move(asked), heard.callbacks());
        stage.run();
        return heard.ends.at(0);
    };
    turn("old", false);
    stage.pass(std::chrono::seconds(40));
    turn("new", false);
    stage.pass(std::chrono::seconds(30));
    EXPECT_EQ(stage.inside().load().conversations, 1U);
    EXPECT_EQ(stage.inside().load().left_by_age, 1U);
    const TurnEnd left = turn("old", true);
    EXPECT_EQ(left.error.code, ErrorCode::not_found);
    EXPECT_THAT(left.error.message, ::testing::HasSubstr("not used for too long"));
    EXPECT_NE(turn("new", true).outcome, TurnOutcome::failed);
    stage.pass(std::chrono::seconds(59));
    EXPECT_EQ(stage.inside().load().conversations, 1U);
    stage.pass(std::chrono::seconds(2));
    EXPECT_EQ(stage.inside().load().conversations, 0U);
    EXPECT_EQ(stage.inside().load().conversation_bytes, 0U);
}

/// There is room for a new one as long as there is one without a turn.
TEST(ConversationsOfAPipeline, LeaveForOthers) {
    Stage stage(small_settings({"server.conversations_max=3"}));
    for (int i = 0; i < 50; ++i) {
        Heard heard;
        stage.engine().ask(chat("c" + std::to_string(i), "Hello!", 1), heard.callbacks());
        stage.run();
        ASSERT_NE(heard.ends.at(0).outcome, TurnOutcome::failed) << heard.ends.at(0).error.message;
    }
    EXPECT_EQ(stage.inside().load().conversations, 3U);
    EXPECT_EQ(stage.inside().load().left_for_room, 47U);
    // Three that have turns stay, and a fourth is told when to come again.
    std::vector<Heard> busy(4);
    for (size_t i = 0; i < busy.size(); ++i)
        stage.engine().ask(chat("busy" + std::to_string(i), "Hello!", 64), busy[i].callbacks());
    stage.run();
    EXPECT_EQ(
        std::ranges::count_if(busy, [](const Heard& one) { return one.ends.at(0).outcome != TurnOutcome::failed; }), 3);
    EXPECT_EQ(busy[3].ends.at(0).error.code, ErrorCode::overloaded);
    EXPECT_GE(busy[3].ends.at(0).error.retry_after_s, 1.0);
}

TEST(ConversationsOfAPipeline, StayWhereATurnIsRefused) {
    Stage stage(small_settings({"server.conversations_max=2", "server.conversations_mib=1"}));
    const auto turn = [&](Ask ask) {
        Heard heard;
        stage.engine().ask(std::move(ask), heard.callbacks());
        stage.run();
        return heard.ends.at(0);
    };
    for (const char* name : {"a", "b"}) EXPECT_NE(turn(chat(name, "Hello!", 1)).outcome, TurnOutcome::failed);
    const std::string too_long(size_t{64} << 20, 'x');
    const std::vector<std::function<void(Ask&)>> wrong{
        [](Ask& ask) { ask.messages.clear(), ask.ids = {-1}; },
        [](Ask& ask) { ask.messages.clear(), ask.ids.resize(1 << 20); },
        [&](Ask& ask) { ask.messages[0].content = too_long; },
        [&](Ask& ask) { ask.messages[0].content = too_long, ask.conversation.id = "a"; },
        [](Ask& ask) { ask.messages[0].content = "caf\xE9"; },
        [](Ask& ask) { ask.messages[0].more_json = "{"; },
        [](Ask& ask) { ask.options.tokens_max = 0; },
        [](Ask& ask) { ask.method = "quest"; },
        [](Ask& ask) { ask.budget_tokens = 64; },
    };
    for (size_t i = 0; i < wrong.size(); ++i) {
        Ask ask = chat("new", "Hello!", 1);
        wrong[i](ask);
        EXPECT_EQ(turn(std::move(ask)).outcome, TurnOutcome::failed) << i;
        EXPECT_EQ(stage.inside().load().conversations, 2U) << i;
        EXPECT_EQ(stage.inside().load().left_for_room, 0U) << i;
    }
    EXPECT_NE(turn(chat("new", "Hello!", 1)).outcome, TurnOutcome::failed);
    EXPECT_EQ(stage.inside().load().left_for_room, 1U);
}

/// A copy of a conversation is made for a fork that can be.
TEST(ConversationsOfAPipeline, AForkToOneThatIsThereIsRefused) {
    Stage stage(small_settings());
    for (const char* name : {"a", "b"}) {
        Heard heard;
        stage.engine().ask(chat(name, "Hello!", 1), heard.callbacks());
        stage.run();
    }
    std::vector<ErrorCode> errors;
    int made = 0;
    const auto fork = [&](caf::event_based_actor* self, const front_actor& front) {
        for (const char* to : {"b", "", "c"})
            self->request(front, caf::infinite, fork_atom::value, ConversationName{"t", "a"}, ConversationName{"t", to})
                .then([&](const ConversationInfoPtr&) { ++made; },
                      [&](const caf::error& error) { errors.push_back(from_caf(error, "?").code); });
    };
    stage.system().spawn(fork, stage.engine().front());
    stage.run();
    EXPECT_EQ(errors, std::vector(2, ErrorCode::invalid_argument));
    EXPECT_EQ(made, 1);
    EXPECT_EQ(stage.inside().load().conversations, 3U);
}

/// Texts count by their bytes: a tenant who sends much loses his own old ones.
TEST(ConversationsOfAPipeline, LeaveForWantOfMemoryForTexts) {
    Stage stage(settings_of({testing::demo_pool(1365), "devices.cpu.threads=1", "server.conversations_mib=1"}));
    std::string text;
    while (text.size() < 2'000) text += "The code of the red box is 4817. ";
    for (int i = 0; i < 200; ++i) {
        Heard heard;
        stage.engine().ask(chat("c" + std::to_string(i), text, 1), heard.callbacks());
        stage.run();
        ASSERT_NE(heard.ends.at(0).outcome, TurnOutcome::failed) << heard.ends.at(0).error.message;
        ASSERT_LT(stage.inside().load().conversation_bytes, (1U << 20) + 20'000U);
    }
    EXPECT_GT(stage.inside().load().conversations, 50U);
    EXPECT_LT(stage.inside().load().conversations, 200U);
}

}  // namespace
}  // namespace rondo
