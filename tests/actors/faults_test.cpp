// A turn is disturbed after each single message of its life, by each kind of fault: its user hears exactly one end,
// every block comes back, and the next turn is answered as ever.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::question;
using testing::right_answer;
using testing::settings_of;
using testing::small_settings;
using testing::Stage;

constexpr auto exit_kill = caf::exit_reason::kill;

/// Tells a turn's port what it is told, and remembers the session, so that it can be made to die.
class Eavesdropper : public listener_actor::base {
public:
    Eavesdropper(caf::actor_config& config, listener_actor port, std::shared_ptr<session_actor> session)
        : listener_actor::base(config), port_(std::move(port)), session_(std::move(session)) {}
    behavior_type make_behavior() override {
        return {
            [this](const TurnBegun& begun) {
                *session_ = caf::actor_cast<session_actor>(begun.session);
                send(port_, begun);
            },
            [this](TurnDelta delta) { send(port_, std::move(delta)); },
            [this](TurnEnd end) {
                send(port_, std::move(end));
                quit();
            },
        };
    }
    void on_exit() override { port_ = nullptr; }

private:
    listener_actor port_;
    std::shared_ptr<session_actor> session_;
};

/// A turn under way, and its session once it is known.
struct Disturbed {
    TurnId turn = 0;
    std::shared_ptr<session_actor> session = std::make_shared<session_actor>();
    listener_actor listener;

    Disturbed(Stage& stage, Ask ask, Heard& heard) : turn(stage.engine().new_turn_id()) {
        const listener_actor port = stage.system().spawn<TurnPort>(stage.inside().router(), heard.callbacks());
        listener = stage.system().spawn<Eavesdropper>(port, session);
        ask.id = turn;
        ask.listener = listener;
        caf::anon_send(stage.inside().router(), ask_atom::value, AskPtr(std::make_shared<Ask>(std::move(ask))));
    }
    ~Disturbed() { caf::anon_send_exit(listener, exit_kill); }
};

struct Fault {
    const char* name;
    /// Whether the engine may go on as before, or has to start its stages anew.
    bool restarts;
    void (*strike)(Stage& stage, const Disturbed& turn);
};

template <class Handle>
void kill_actor(const Handle& actor) {
    caf::anon_send_exit(actor, exit_kill);
}

std::vector<caf::strong_actor_ptr> all_named(const Stage& stage, std::string_view name) {
    std::vector<caf::strong_actor_ptr> all;
    for (const caf::strong_actor_ptr& actor : stage.pipeline().actors) {
        const auto* const local = dynamic_cast<caf::local_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
        if (local != nullptr && local->name() == name) all.push_back(actor);
    }
    return all;
}

void kill_named(const Stage& stage, std::string_view name) {
    for (const caf::strong_actor_ptr& actor : all_named(stage, name)) kill_actor(caf::actor_cast<caf::actor>(actor));
}

/// The next message that the stage takes throws, as where there is no memory.
void throw_in(const Stage& stage, std::string_view name) {
    const auto throws = [](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
        throw std::bad_alloc();
    };
    for (const caf::strong_actor_ptr& actor : all_named(stage, name)) {
        auto* const local = dynamic_cast<caf::scheduled_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
        local->set_default_handler(throws);
        caf::anon_send(caf::actor_cast<caf::actor>(actor), std::string("which no stage expects"));
    }
}

/// Attention to everything, and to keys that are chosen beside the steps, so that the selector has a part in the turn.
struct Attends {
    const char* name;
    std::vector<std::string> settings;
};
const Attends attends[] = {
    {"dense", {}},
    {"chosen",
     {"pipeline.decode.attention.method=progressive", "pipeline.decode.attention.budget_tokens=32",
      "pipeline.decode.attention.cold_tokens=1", "pipeline.decode.attention.reselect_every=3",
      "pipeline.decode.attention.lag_steps=1"}},
};

const Fault faults[] = {
    {"cancel", false, [](Stage& stage, const Disturbed& turn) { stage.engine().cancel(turn.turn); }},
    {"deadline", false,
     [](Stage& stage, const Disturbed&) { stage.scheduler().advance_time(std::chrono::seconds(2)); }},
    {"admission_dies", true, [](Stage& stage, const Disturbed&) { kill_actor(stage.pipeline().stages.admission); }},
    {"prefill_dies", true, [](Stage& stage, const Disturbed&) { kill_actor(stage.pipeline().stages.prefill); }},
    {"decode_dies", true, [](Stage& stage, const Disturbed&) { kill_actor(stage.pipeline().stages.decode); }},
    {"cache_dies", true, [](Stage& stage, const Disturbed&) { kill_actor(stage.pipeline().stages.cache); }},
    {"selector_dies", true, [](Stage& stage, const Disturbed&) { kill_named(stage, "selector"); }},
    {"runner_dies", true, [](Stage& stage, const Disturbed&) { kill_named(stage, "device_runner"); }},
    {"session_dies", false,
     [](Stage&, const Disturbed& turn) {
         if (*turn.session) kill_actor(*turn.session);
     }},
    {"conversation_is_removed", false,
     [](Stage& stage, const Disturbed&) {
         caf::anon_send(stage.inside().router(), remove_atom::value, ConversationName{"t", "c"});
     }},
};

/// After the cache has given back everything, if nobody holds any of it.
size_t free_blocks(Stage& stage) {
    const auto all = static_cast<int64_t>(stage.inside().pool().blocks_total(LayerGroup::upper));
    caf::anon_send(stage.pipeline().stages.cache, room_atom::value, BlockCounts{0, all});
    stage.run();
    return stage.inside().pool().blocks_free(LayerGroup::upper);
}

class Faults : public ::testing::TestWithParam<std::tuple<Fault, Attends>> {
protected:
    static bool chooses() { return !std::get<Attends>(GetParam()).settings.empty(); }

    void expect_as_ever(Stage& stage) const {
        Heard heard;
        stage.engine().ask(chat("after", question), heard.callbacks());
        stage.run();
        ASSERT_EQ(heard.ends.size(), 1U);
        EXPECT_EQ(heard.text, right_answer);
        EXPECT_EQ(heard.ends[0].attention.selections > 0, chooses());
        caf::anon_send(stage.inside().router(), remove_atom::value, ConversationName{"t", "after"});
        stage.run();
    }
};

TEST_P(Faults, AfterEachMessageOfATurn) {
    const auto& [fault, how] = GetParam();
    std::vector<std::string> settings = how.settings;
    settings.insert(settings.end(), {testing::demo_pool(85), "devices.cpu.threads=1"});
    Stage stage(settings_of(settings));
    const size_t all = free_blocks(stage);
    int steps = 0, undisturbed = 0, struck = 0;
    for (int after = 0; undisturbed == 0; ++after) {
        SCOPED_TRACE("after message " + std::to_string(after));
        ASSERT_LT(after, 1000);
        Heard heard;
        Ask ask = chat("c", question);
        ask.deadline_seconds = 1.0;
        const Disturbed turn(stage, std::move(ask), heard);
        steps = 0;
        while (steps < after && stage.run_one()) ++steps;
        if (steps < after) ++undisturbed;  // the turn was over before
        fault.strike(stage, turn);
        stage.run();
        stage.pass(std::chrono::seconds(120));  // restarts are counted by the minute
        ASSERT_EQ(heard.ends.size(), 1U);
        EXPECT_EQ(heard.after_the_end, 0U);
        EXPECT_EQ(stage.inside().load().turns, 0U);
        EXPECT_EQ(stage.inside().load().running, 0U);
        const TurnEnd& end = heard.ends[0];
        if (end.outcome == TurnOutcome::stop) {
            EXPECT_EQ(heard.text, right_answer);
        } else {
            ++struck;
        }
        EXPECT_THAT(right_answer, ::testing::StartsWith(heard.text));
        caf::anon_send(stage.inside().router(), remove_atom::value, ConversationName{"t", "c"});
        stage.run();
        EXPECT_EQ(free_blocks(stage), all);
        if (after % 7 == 0) expect_as_ever(stage);
        if (HasFailure()) return;
    }
    EXPECT_GT(steps, 30);  // the table has been through a whole turn
    EXPECT_GT(struck, 10) << "the fault does nothing";
    EXPECT_EQ(stage.starts > 1, fault.restarts);
    expect_as_ever(stage);
}

INSTANTIATE_TEST_SUITE_P(Each, Faults, ::testing::Combine(::testing::ValuesIn(faults), ::testing::ValuesIn(attends)),
                         [](const auto& info) {
                             return std::string(std::get<Fault>(info.param).name) + "_" +
                                    std::get<Attends>(info.param).name;
                         });

/// The stage that threw ends, and all others with it, whatever it was at.
TEST(Supervisor, StartsTheStagesAnewWhenAHandlerThrows) {
    Engine::Options options;
    std::vector<std::string> log;
    options.log = [&](const std::string& line) { log.push_back(line); };
    Stage stage(small_settings(), std::move(options));
    const size_t all = free_blocks(stage);
    int starts = 1;
    for (const char* name : {"admission", "prefill", "decode", "cache", "selector", "device_runner"}) {
        for (const bool answers : {false, true}) {
            SCOPED_TRACE(name + std::string(answers ? " in an answer" : " in a prompt"));
            Heard heard, next;
            stage.engine().ask(chat("", question), heard.callbacks());
            while (answers ? heard.text.empty() : stage.inside().load().running == 0) ASSERT_TRUE(stage.run_one());
            log.clear();
            throw_in(stage, name);
            stage.run();
            EXPECT_EQ(stage.starts, ++starts);
            ASSERT_EQ(log.size(), 1U);
            EXPECT_THAT(log[0], ::testing::StartsWith(std::string("the pipeline's ") + name + " died ("));
            ASSERT_EQ(heard.ends.size(), 1U);
            EXPECT_EQ(heard.after_the_end, 0U);
            EXPECT_EQ(heard.ends[0].outcome, TurnOutcome::failed);
            EXPECT_EQ(heard.ends[0].error.code, ErrorCode::internal) << heard.ends[0].error.message;
            EXPECT_EQ(stage.inside().load().turns, 0U);
            EXPECT_EQ(stage.inside().load().running, 0U);
            EXPECT_EQ(free_blocks(stage), all);
            stage.engine().ask(chat("", question), next.callbacks());
            stage.run();
            EXPECT_EQ(next.text, right_answer);
            stage.pass(std::chrono::seconds(120));  // restarts are counted by the minute
        }
    }
}

TEST(Supervisor, GivesUpWhenStagesKeepDying) {
    Engine::Options options;
    std::vector<Error> reasons;
    options.gave_up = [&](Error why) { reasons.push_back(std::move(why)); };
    Stage stage(small_settings(), std::move(options));
    for (int i = 0; i < 7; ++i) {
        kill_actor(stage.pipeline().stages.decode);
        stage.run();
    }
    ASSERT_EQ(reasons.size(), 1U);
    EXPECT_THAT(reasons[0].message, ::testing::HasSubstr("died 6 times"));
    Heard heard;
    stage.engine().ask(chat("c", question), heard.callbacks());
    stage.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ends[0].outcome, TurnOutcome::failed);
}

/// Nobody can take over from these: what is under way ends, and the engine says that it has given up.
class LastOnes : public ::testing::TestWithParam<const char*> {};

TEST_P(LastOnes, EndEveryTurnWhenTheyDie) {
    for (int after = 0; after < 60; after += 4) {
        SCOPED_TRACE("after message " + std::to_string(after));
        Engine::Options options;
        std::vector<Error> reasons;
        options.gave_up = [&](Error why) { reasons.push_back(std::move(why)); };
        Stage stage(small_settings(), std::move(options));
        Heard heard, waiting, late;
        stage.engine().ask(chat("c", question), heard.callbacks());
        stage.engine().ask(chat("c", question), waiting.callbacks());
        for (int i = 0; i < after; ++i) stage.run_one();
        if (GetParam() == std::string("router")) {
            kill_actor(stage.inside().router());
        } else {
            kill_actor(stage.inside().supervisor());
        }
        stage.run();
        ASSERT_EQ(reasons.size(), 1U);
        EXPECT_THAT(reasons[0].message, ::testing::HasSubstr(GetParam()));
        EXPECT_TRUE(stage.inside().load().gave_up);
        stage.engine().ask(chat("late", question), late.callbacks());
        stage.run();
        for (const Heard* one : {&heard, &waiting, &late}) {
            ASSERT_EQ(one->ends.size(), 1U);
            EXPECT_EQ(one->after_the_end, 0U);
        }
        EXPECT_EQ(late.ends[0].outcome, TurnOutcome::failed);
        EXPECT_EQ(stage.inside().load().running, 0U);
        EXPECT_EQ(stage.inside().load().turns, 0U);
        if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, LastOnes, ::testing::Values("router", "supervisor"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rondo
