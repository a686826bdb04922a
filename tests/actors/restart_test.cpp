// Stages that die: when others take their place, and what becomes of the turns that wait meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::Busy;
using testing::chat;
using testing::Heard;
using testing::question;
using testing::right_answer;
using testing::small_settings;
using testing::Stage;

void kill_decode(Stage& stage) {
    caf::anon_send_exit(stage.pipeline().stages.decode, caf::exit_reason::kill);
}

TEST(Restart, WaitsForTheOldRunnerAndTurnsWaitWithIt) {
    Stage stage(small_settings());
    Busy busy(stage);
    kill_decode(stage);
    busy.run();
    EXPECT_EQ(stage.starts, 1);
    Heard heard, cancelled, late;
    stage.engine().ask(chat("c", question), heard.callbacks());
    const TurnId unwanted = stage.engine().ask(chat("", question), cancelled.callbacks());
    Ask hasty = chat("hasty", question);
    hasty.deadline_seconds = 1.0;
    stage.engine().ask(std::move(hasty), late.callbacks());
    busy.run();
    stage.engine().cancel(unwanted);
    busy.pass(std::chrono::seconds(2));
    ASSERT_EQ(cancelled.ends.size(), 1U);
    EXPECT_EQ(cancelled.ends[0].outcome, TurnOutcome::cancelled);
    ASSERT_EQ(late.ends.size(), 1U);
    EXPECT_EQ(late.ends[0].error.code, ErrorCode::timeout);
    EXPECT_EQ(heard.ends.size(), 0U);
    EXPECT_EQ(stage.starts, 1);

    stage.run();
    EXPECT_EQ(stage.starts, 2);
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.text, right_answer);
    EXPECT_GT(heard.ends[0].timings.queued, 1.9);
    EXPECT_EQ(stage.inside().load().turns, 0U);
}

/// The turn is to begin before it, as soon as there are stages.
TEST(Restart, NothingIsTakenBackBehindATurnThatWaits) {
    Stage stage(small_settings());
    Heard before, heard;
    stage.engine().ask(chat("c", "Hello!", 4), before.callbacks());
    stage.run();
    Busy busy(stage);
    kill_decode(stage);
    busy.run();
    stage.engine().ask(chat("c", question), heard.callbacks());
    std::string told;
    const auto host = [&told](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, rewind_atom::value, ConversationName{"t", "c"}, int64_t{0})
            .then([&told](const ConversationInfoPtr&) { told = "done"; },
                  [&told](const caf::error& error) { told = from_caf(error, "the router").message; });
    };
    stage.system().spawn(host, stage.engine().front());
    busy.run();
    EXPECT_THAT(told, ::testing::HasSubstr("has a turn under way"));
    stage.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_NE(heard.ends[0].outcome, TurnOutcome::failed) << heard.ends[0].error.message;
}

TEST(Restart, IsGivenUpWhenAStageDoesNotEnd) {
    Engine::Options options;
    std::vector<Error> reasons;
    options.gave_up = [&](Error why) { reasons.push_back(std::move(why)); };
    Stage stage(small_settings(), std::move(options));
    Busy busy(stage);
    kill_decode(stage);
    busy.run();
    Heard waited, late;
    stage.engine().ask(chat("c", question), waited.callbacks());
    busy.pass(std::chrono::seconds(119));
    EXPECT_EQ(reasons.size(), 0U);
    busy.pass(std::chrono::seconds(2));
    ASSERT_EQ(reasons.size(), 1U);
    EXPECT_THAT(reasons[0].message, ::testing::HasSubstr("device_runner did not end within 120 s"));
    ASSERT_EQ(waited.ends.size(), 1U);
    EXPECT_EQ(waited.ends[0].outcome, TurnOutcome::failed);
    stage.run();  // it ends after all
    EXPECT_EQ(stage.starts, 1);
    stage.engine().ask(chat("c", question), late.callbacks());
    stage.run();
    ASSERT_EQ(late.ends.size(), 1U);
    EXPECT_EQ(late.ends[0].outcome, TurnOutcome::failed);
}

TEST(Restart, AnEngineMayEndMeanwhile) {
    Stage stage(small_settings());
    Busy busy(stage);
    kill_decode(stage);
    busy.run();
    Heard heard;
    stage.engine().ask(chat("c", question), heard.callbacks());
    busy.run();
    stage.engine().shut_down();
    busy.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ends[0].outcome, TurnOutcome::failed);
    stage.run();
    EXPECT_EQ(stage.starts, 1);
}

/// Of a conversation's turns only the one that was under way is lost.
TEST(Restart, WaitingTurnsStartWithTheNewStages) {
    Stage stage(small_settings());
    Heard lost, second, third;
    stage.engine().ask(chat("c", question), lost.callbacks());
    stage.engine().ask(chat("c", question), second.callbacks());
    stage.engine().ask(chat("c", question), third.callbacks());
    while (lost.text.empty()) ASSERT_TRUE(stage.run_one());
    caf::anon_send_exit(stage.pipeline().stages.cache, caf::exit_reason::kill);
    stage.run();
    ASSERT_EQ(lost.ends.size(), 1U);
    EXPECT_EQ(lost.ends[0].outcome, TurnOutcome::failed);
    ASSERT_EQ(second.ends.size(), 1U);
    EXPECT_EQ(second.text, right_answer);
    ASSERT_EQ(third.ends.size(), 1U);
    EXPECT_NE(third.ends[0].outcome, TurnOutcome::failed) << third.ends[0].error.message;
}

/// Ends of an error when it is told to.
class Mortal : public caf::event_based_actor {
public:
    explicit Mortal(caf::actor_config& config) : caf::event_based_actor(config) {}
    caf::behavior make_behavior() override {
        return {[this](const std::string& why) { quit(to_caf(make_error(ErrorCode::internal, why))); }};
    }
    const char* name() const override { return "mortal"; }
};

TEST(Restart, IsLoggedWithWhoDiedOfWhat) {
    caf::actor_system_config config;
    config.set("scheduler.policy", caf::atom("testing"));
    caf::actor_system system(config);
    auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
    Router::Options routing;
    routing.session.runtime = std::make_shared<Runtime>();
    const router_actor router =
        system.spawn<Router>(std::make_shared<Load>(), std::make_shared<std::atomic<TurnId>>(0), routing);
    std::vector<std::string> log;
    caf::actor mortal;
    Supervisor::Options options;
    options.start = [&](caf::local_actor& self) -> Result<Supervisor::Pipeline> {
        mortal = self.spawn<Mortal>();
        Supervisor::Pipeline made;
        made.actors = {caf::actor_cast<caf::strong_actor_ptr>(mortal)};
        return made;
    };
    options.gave_up = [](const Error&) {};
    options.log = [&](const std::string& line) { log.push_back(line); };
    const supervisor_actor supervisor = system.spawn<Supervisor>(std::move(options));
    caf::anon_send(supervisor, router);
    scheduler.run();
    caf::anon_send(mortal, std::string("the device fell off"));
    scheduler.run();
    EXPECT_THAT(log, ::testing::ElementsAre(
                         "the pipeline's mortal died (the device fell off), and all its stages end with it"));
    caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(router, caf::exit_reason::user_shutdown);
    mortal = nullptr;
    scheduler.run();
}

}  // namespace
}  // namespace rondo
