#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "actors/turn_port.hpp"
#include "config/limits.hpp"
#include "tests/actors/pipeline_fixture.hpp"

/// What a host that talks to the engine by messages may send: whatever it is, there is one answer to it.
namespace rondo {
namespace {

using testing::chat;
using ::testing::HasSubstr;
using testing::Heard;
using testing::settings_of;
using testing::Stage;

/// All that a listener heard, and what the request itself was answered.
struct Told : Heard {
    std::vector<TurnId> begun, ids_given;
    std::vector<std::string> errors;
};

caf::behavior listening(caf::event_based_actor*, Told* told) {
    const auto callbacks = std::make_shared<TurnCallbacks>(told->callbacks());
    return {[=](const TurnBegun& begun) { told->begun.push_back(begun.turn); },
            [=](TurnDelta delta) { callbacks->on_delta(std::move(delta)); },
            [=](TurnEnd end) { callbacks->on_end(std::move(end)); }};
}

class Embedding : public ::testing::Test {
protected:
    listener_actor listener(Told& told) {
        return caf::actor_cast<listener_actor>(stage_.system().spawn(listening, &told));
    }
    /// As a request of a host's actor.
    void request(Told& told, const AskPtr& ask) {
        const auto host = [&told, ask](caf::event_based_actor* self, const front_actor& front) {
            self->request(front, caf::infinite, ask_atom::value, ask)
                .then([&told](TurnId id) { told.ids_given.push_back(id); },
                      [&told](const caf::error& error) { told.errors.push_back(from_caf(error, "?").message); });
        };
        stage_.system().spawn(host, stage_.engine().front());
    }
    AskPtr ask(Told& told, const std::string& conversation, const std::string& text = "Hello!", TurnId id = 0) {
        Ask asked = chat(conversation, text, 4);
        asked.id = id;
        asked.listener = listener(told);
        return std::make_shared<Ask>(std::move(asked));
    }
    void expect_all_given_back() {
        EXPECT_EQ(stage_.inside().load().turns, 0U);
        const KvPool& pool = stage_.inside().pool();
        EXPECT_EQ(static_cast<int64_t>(pool.blocks_free(LayerGroup::upper)) + stage_.inside().load().blocks_cached,
                  static_cast<int64_t>(pool.blocks_total(LayerGroup::upper)));
    }

    Stage stage_{settings_of({testing::demo_pool(170), "devices.cpu.threads=1"})};
};

TEST_F(Embedding, ARequestIsAnsweredByTheTurnsIdAndTheListenerHearsTheTurn) {
    Told told;
    request(told, ask(told, "c"));
    stage_.run();
    ASSERT_EQ(told.ids_given.size(), 1U);
    EXPECT_EQ(told.begun, told.ids_given);
    EXPECT_FALSE(told.ids.empty());
    ASSERT_EQ(told.ends.size(), 1U);
    EXPECT_EQ(told.after_the_end, 0U);
}

TEST_F(Embedding, NoAskAndNoListenerAreErrorsOfTheRequest) {
    Told told;
    request(told, nullptr);
    request(told, std::make_shared<Ask>(chat("c", "Hello!")));
    stage_.run();
    EXPECT_THAT(told.errors, ::testing::Each(HasSubstr("needs an Ask with a listener")));
    EXPECT_EQ(told.errors.size(), 2U);
    // Sent without a request, the sender hears of a turn that failed.
    Told sender;
    const caf::actor host = stage_.system().spawn(listening, &sender);
    caf::send_as(host, stage_.engine().front(), ask_atom::value, AskPtr());
    caf::anon_send(stage_.engine().front(), ask_atom::value, AskPtr());  // and nobody is nobody
    stage_.run();
    ASSERT_EQ(sender.ends.size(), 1U);
    EXPECT_EQ(sender.ends[0].outcome, TurnOutcome::failed);
    EXPECT_THAT(sender.ends[0].error.message, HasSubstr("listener"));
    // It serves as before.
    Told next;
    request(next, ask(next, "c"));
    stage_.run();
    EXPECT_EQ(next.ends.size(), 1U);
}

TEST_F(Embedding, EveryTurnHasAnIdOfItsOwnWhateverIdItCameWith) {
    std::vector<Told> told(20);
    for (size_t i = 0; i < told.size(); ++i) request(told[i], ask(told[i], "c" + std::to_string(i % 4)));
    stage_.run();
    std::vector<TurnId> ids;
    for (const Told& one : told) {
        ASSERT_EQ(one.ends.size(), 1U);
        EXPECT_NE(one.ends[0].outcome, TurnOutcome::failed) << one.ends[0].error.message;
        ids.push_back(one.ids_given.at(0));
    }
    std::ranges::sort(ids);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
    expect_all_given_back();
}

TEST_F(Embedding, AnIdThatIsUnderWayOrWasNeverGivenIsRefusedByAnEnd) {
    const TurnId given = stage_.engine().new_turn_id();
    Told first, again, invented;
    request(first, ask(first, "c", "Hello!", given));
    request(again, ask(again, "c", "Hello!", given));
    request(invented, ask(invented, "d", "Hello!", given + 1'000'000));
    stage_.run();
    EXPECT_EQ(first.ids_given, std::vector<TurnId>{given});
    EXPECT_NE(first.ends.at(0).outcome, TurnOutcome::failed);
    for (const Told* one : {&again, &invented}) {
        ASSERT_EQ(one->ends.size(), 1U);
        EXPECT_TRUE(one->begun.empty());
        EXPECT_EQ(one->ends[0].error.code, ErrorCode::invalid_argument);
        EXPECT_THAT(one->ends[0].error.message, HasSubstr("new_turn_id"));
    }
    // The conversation waits for nobody.
    Told next;
    request(next, ask(next, "c"));
    stage_.run();
    EXPECT_NE(next.ends.at(0).outcome, TurnOutcome::failed);
    expect_all_given_back();
}

TEST_F(Embedding, CallsKeepTheIdThatTheHostHasTaken) {
    const TurnId given = stage_.engine().new_turn_id();
    Ask mine = chat("c", "Hello!", 64);
    mine.options.ignore_eos = true;
    mine.id = given;
    Told told, again;
    EXPECT_EQ(stage_.engine().ask(mine, told.callbacks()), given);
    EXPECT_EQ(stage_.engine().ask(mine, again.callbacks()), given);
    while (told.ids.empty()) ASSERT_TRUE(stage_.run_one());
    stage_.engine().cancel(given);
    stage_.run();
    ASSERT_EQ(told.ends.size(), 1U);
    EXPECT_EQ(told.ends[0].outcome, TurnOutcome::cancelled);
    ASSERT_EQ(again.ends.size(), 1U);
    EXPECT_THAT(again.ends[0].error.message, HasSubstr("new_turn_id")) << "it was under way";
    expect_all_given_back();
}

TEST_F(Embedding, TheSameAskCanBeSentTwice) {
    Told told;
    const AskPtr same = ask(told, "c");
    request(told, same);
    request(told, same);
    stage_.run();
    EXPECT_EQ(told.ids_given.size(), 2U);
    EXPECT_NE(told.ids_given.at(0), told.ids_given.at(1));
    EXPECT_EQ(told.ends.size(), 2U);
}

/// The end of one of his turns does not make a listener a stranger to the other.
TEST_F(Embedding, AListenerOfTwoTurnsIsWatchedUntilTheSecondEnds) {
    Told told;
    Ask first = *ask(told, "c"), second = first;
    second.options.tokens_max = 200;
    second.options.ignore_eos = true;
    request(told, std::make_shared<Ask>(first));
    request(told, std::make_shared<Ask>(second));
    while (told.ends.empty()) ASSERT_TRUE(stage_.run_one());
    while (told.begun.size() < 2) ASSERT_TRUE(stage_.run_one());
    caf::anon_send_exit(first.listener, caf::exit_reason::kill);
    for (int i = 0; i < 100 && stage_.run_one(); ++i) {  // its 200 tokens take many more messages
    }
    EXPECT_EQ(stage_.inside().load().turns, 0U) << "the second is computed for nobody";
    stage_.run();
    EXPECT_EQ(told.ends.size(), 1U);
    expect_all_given_back();
}

/// Whoever is watched keeps a note of it: of the router that would be one for each turn there ever was.
TEST_F(Embedding, ATurnThatIsOverLeavesNothingBehind) {
    for (const bool refused : {true, false, false}) {
        Told told;
        Ask asked = chat("c", "Hello!", 4);
        asked.goes_on = refused;
        listener_actor port = stage_.system().spawn<TurnPort>(stage_.engine().front(), told.callbacks());
        const auto weak = caf::actor_cast<caf::weak_actor_ptr>(port);
        asked.listener = std::exchange(port, nullptr);
        caf::anon_send(stage_.engine().front(), ask_atom::value, AskPtr(std::make_shared<Ask>(std::move(asked))));
        stage_.run();
        ASSERT_EQ(told.ends.size(), 1U);
        EXPECT_EQ(told.ends[0].outcome == TurnOutcome::failed, refused);
        EXPECT_EQ(weak->weak_refs.load(), 1U) << refused;
    }
}

/// Out of an actor's last words, an exception would end the process.
TEST_F(Embedding, CallbacksThatThrowEndTheirOwnTurnAlone) {
    const auto throws = [](auto) { throw std::runtime_error("the host's own"); };
    Told told;
    TurnCallbacks callbacks = told.callbacks();
    callbacks.on_delta = throws;
    stage_.engine().ask(chat("c", "Hello!", 4), std::move(callbacks));
    stage_.run();
    ASSERT_EQ(told.ends.size(), 1U);
    EXPECT_EQ(told.ends[0].outcome, TurnOutcome::failed);
    EXPECT_EQ(told.ends[0].error.code, ErrorCode::cancelled);
    EXPECT_THAT(told.ends[0].error.message, HasSubstr("on_delta threw"));
    int ends = 0;
    for (const bool both : {false, true}) {  // with both, it is an actor's last words that throw
        callbacks = {};
        if (both) callbacks.on_delta = throws;
        callbacks.on_end = [&](TurnEnd end) {
            ++ends;
            throws(std::move(end));
        };
        stage_.engine().ask(chat("c", "Hello!", 4), std::move(callbacks));
        stage_.run();
    }
    EXPECT_EQ(ends, 2);
    Told next;
    request(next, ask(next, "c"));
    stage_.run();
    EXPECT_NE(next.ends.at(0).outcome, TurnOutcome::failed);
    expect_all_given_back();
}

TEST_F(Embedding, WhatIsOutOfRangeIsRefusedByAnEnd) {
    using Change = std::function<void(Ask&)>;
    const auto huge = std::string(limits::conversation_id_bytes_max + 1, 'x');
    const std::vector<std::pair<const char*, Change>> changes{
        {"deadline_seconds", [](Ask& one) { one.deadline_seconds = 0.0; }},
        {"deadline_seconds", [](Ask& one) { one.deadline_seconds = -1.0; }},
        {"deadline_seconds", [](Ask& one) { one.deadline_seconds = std::numeric_limits<double>::quiet_NaN(); }},
        {"deadline_seconds", [](Ask& one) { one.deadline_seconds = std::numeric_limits<double>::infinity(); }},
        {"deadline_seconds", [](Ask& one) { one.deadline_seconds = 1e308; }},
        {"priority", [](Ask& one) { one.priority = std::numeric_limits<int>::max(); }},
        {"priority", [](Ask& one) { one.priority = std::numeric_limits<int>::min(); }},
        {"asks nothing", [](Ask& one) { one.messages.clear(); }},
        {"messages", [](Ask& one) { one.messages.resize(limits::messages_max + 1); }},
        {"conversation's id", [&](Ask& one) { one.conversation.id = huge; }},
        {"conversation's id", [](Ask& one) { one.conversation.id = std::string("a\0b", 3); }},
        {"tenant", [](Ask& one) { one.conversation.tenant = "t\nprogressive"; }},  // another's name space
        {"goes_on", [](Ask& one) { one.conversation.id.clear(), one.goes_on = true; }},
        {"no such method", [](Ask& one) { one.method = "no such method"; }},
        {"budget_tokens", [](Ask& one) { one.budget_tokens = 64; }},  // of the dense method
        {"messages[0].role is unknown", [](Ask& one) { one.messages[0].role = "root"; }},
        {"messages[0].role is unknown", [](Ask& one) { one.messages[0].role = ""; }},
        {"template's variables", [](Ask& one) { one.template_variables = "[1]"; }},
        {"'messages'", [](Ask& one) { one.template_variables = R"({"messages": []})"; }},
        {"'eos_token'", [](Ask& one) { one.template_variables = R"({"eos_token": "x"})"; }},
        {"template's variables", [](Ask& one) { one.template_variables = std::string(1 << 20, ' ') + "{}"; }},
        {"further members", [](Ask& one) { one.messages[0].more_json = "{\"name\":"; }},
        {"min_tokens", [](Ask& one) { one.options.tokens_min = -1; }},
        {"", [](Ask& one) { one.options.tokens_max = -1; }},
        {"", [](Ask& one) { one.options.sampling.temperature = std::numeric_limits<float>::quiet_NaN(); }},
        {"", [](Ask& one) { one.messages.clear(), one.ids = {-1}; }},
        {"", [](Ask& one) { one.messages.clear(), one.ids = {std::numeric_limits<int32_t>::max()}; }},
    };
    for (size_t i = 0; i < changes.size(); ++i) {
        SCOPED_TRACE(i);
        Told told;
        Ask asked = *ask(told, "c");
        changes[i].second(asked);
        request(told, std::make_shared<Ask>(std::move(asked)));
        stage_.run();
        ASSERT_EQ(told.ends.size(), 1U);
        EXPECT_EQ(told.ends[0].outcome, TurnOutcome::failed);
        EXPECT_THAT(told.ends[0].error.message, HasSubstr(changes[i].first));
        EXPECT_EQ(told.ids_given.size(), 1U);
    }
    expect_all_given_back();
}

TEST_F(Embedding, AListenerThatHasDiedCancelsItsTurn) {
    Told told;
    Ask asked = *ask(told, "c");
    asked.options.tokens_max = 200;
    asked.options.ignore_eos = true;
    caf::anon_send_exit(asked.listener, caf::exit_reason::kill);
    stage_.run();
    request(told, std::make_shared<Ask>(asked));
    while (told.ids_given.empty()) ASSERT_TRUE(stage_.run_one());
    for (int i = 0; i < 100 && stage_.run_one(); ++i) {  // its 200 tokens take many more messages
    }
    EXPECT_EQ(stage_.inside().load().turns, 0U) << "it is computed for nobody";
    stage_.run();
    EXPECT_EQ(told.ids_given.size(), 1U);
    EXPECT_TRUE(told.ends.empty());
    expect_all_given_back();
}

/// Of ten places.
TEST(EmbeddingOfTenants, NoneTakesAllPlacesWhereThereAreSeveral) {
    for (const bool several : {false, true}) {
        Engine::Options options;
        options.several_tenants = several;
        Stage stage(testing::small_settings({"pipeline.decode.batch_max=1", "server.requests_waiting_max=9"}),
                    std::move(options));
        std::vector<Told> greedy(10);
        Told late;
        Ask asked = chat("", "Hello!", 16);
        asked.options.ignore_eos = true;  // so that none has ended before all have asked
        for (Told& told : greedy) stage.engine().ask(asked, told.callbacks());
        asked.conversation.tenant = "late";
        stage.engine().ask(asked, late.callbacks());
        stage.run();
        const auto is_refused = [](const Told& told) { return told.ends.at(0).error.code == ErrorCode::overloaded; };
        EXPECT_EQ(std::ranges::count_if(greedy, is_refused), several ? 2 : 0);
        EXPECT_EQ(is_refused(late), !several);
    }
}

TEST_F(Embedding, WhatCannotBeIsRefusedWhateverIsAsked) {
    std::vector<std::string> errors;
    const auto failed = [&](const caf::error& error) { errors.push_back(from_caf(error, "?").message); };
    const auto host = [&](caf::event_based_actor* self, const front_actor& front) {
        const auto ask = [&](auto... what) {
            self->request(front, caf::infinite, what...).then([](const ConversationInfoPtr&) {}, failed);
        };
        const ConversationName empty{"t", ""}, odd{"t", "a\nb"}, unknown{"t", "unknown"};
        ask(create_atom::value, empty, Preamble{});
        ask(create_atom::value, odd, Preamble{});
        ask(create_atom::value, unknown, Preamble{{"system", "caf\xE9"}});
        ask(create_atom::value, unknown, Preamble{{"system", "Be brief.", "{\"name\":"}});
        ask(create_atom::value, unknown, Preamble{{"system", "Be brief.", "[1]"}});
        ask(fork_atom::value, unknown, odd);
        ask(list_atom::value, odd);
        ask(rewind_atom::value, unknown, int64_t{-1});
        ask(drop_atom::value, unknown, RoundList{-1, INT64_MAX});
    };
    stage_.system().spawn(host, stage_.engine().front());
    stage_.run();
    EXPECT_EQ(errors.size(), 9U);
    EXPECT_EQ(stage_.inside().load().conversations, 0U);
}

}  // namespace
}  // namespace rondo
