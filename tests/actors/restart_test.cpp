// Stages that die: when others take their place, and what becomes of the turns that wait meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::settings_of;
using testing::Stage;

const char* const question = "The code of the red box is 4817. What is the code of the red box?";
const char* const right_answer = "The code of the red box is 4817.";

Settings small() {
    return settings_of({"memory.device_kv_mib=4", "devices.cpu.threads=1"});
}

caf::abstract_actor* runner_of(Stage& stage) {
    for (const caf::strong_actor_ptr& actor : stage.pipeline().actors) {
        auto* const local = caf::actor_cast<caf::abstract_actor*>(actor);
        if (dynamic_cast<caf::local_actor*>(local)->name() == std::string_view("device_runner")) return local;
    }
    return nullptr;
}

/// As if the device were at a long piece of work: whatever its runner is told waits.
class Busy {
public:
    explicit Busy(Stage& stage) : stage_(stage), runner_(dynamic_cast<caf::resumable*>(runner_of(stage))) {}
    void run() {
        stage_.scheduler().run_jobs_filtered([this](const caf::resumable* job) { return job != runner_; });
    }
    void pass(caf::timespan time) {
        stage_.scheduler().advance_time(time);
        run();
    }

private:
    Stage& stage_;
    const caf::resumable* const runner_;
};

void kill_decode(Stage& stage) {
    caf::anon_send_exit(stage.pipeline().stages.decode, caf::exit_reason::kill);
}

TEST(Restart, WaitsForTheOldRunnerAndTurnsWaitWithIt) {
    Stage stage(small());
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
    EXPECT_EQ(stage.engine().load().turns, 0U);
}

TEST(Restart, IsGivenUpWhenAStageDoesNotEnd) {
    Engine::Options options;
    std::vector<Error> reasons;
    options.gave_up = [&](Error why) { reasons.push_back(std::move(why)); };
    Stage stage(small(), std::move(options));
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
    Stage stage(small());
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
    Stage stage(small());
    Heard lost, second, third;
    stage.engine().ask(chat("c", question), lost.callbacks());
    stage.engine().ask(chat("c", question), second.callbacks());
    stage.engine().ask(chat("c", question), third.callbacks());
    while (lost.text.empty()) ASSERT_TRUE(stage.run_one());
    caf::anon_send_exit(stage.pipeline().stages.store, caf::exit_reason::kill);
    stage.run();
    ASSERT_EQ(lost.ends.size(), 1U);
    EXPECT_EQ(lost.ends[0].outcome, TurnOutcome::failed);
    ASSERT_EQ(second.ends.size(), 1U);
    EXPECT_EQ(second.text, right_answer);
    ASSERT_EQ(third.ends.size(), 1U);
    EXPECT_NE(third.ends[0].outcome, TurnOutcome::failed) << third.ends[0].error.message;
}

/// The router sends itself one message for the earliest deadline; those of later ones that were sent before change
/// nothing.
TEST(Deadlines, DoNotMultiplyMessages) {
    Stage stage(small());
    Busy busy(stage);
    kill_decode(stage);
    busy.run();
    const size_t before = stage.scheduler().clock().schedule().size();
    std::vector<Heard> heard(8);
    for (size_t i = 0; i < heard.size(); ++i) {
        Ask ask = chat("", question);
        ask.deadline_seconds = 100.0 - 10.0 * static_cast<double>(i);
        stage.engine().ask(std::move(ask), heard[i].callbacks());
        busy.run();
    }
    for (int i = 0; i < 95; ++i) busy.pass(std::chrono::seconds(1));
    for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i].ends.size(), i == 0 ? 0U : 1U) << i;
    EXPECT_LE(stage.scheduler().clock().schedule().size(), before + 2);
    stage.run();
    EXPECT_EQ(heard[0].ends.size(), 1U);
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
    routing.session.home = std::make_shared<Home>();
    const router_actor router = system.spawn<Router>(std::make_shared<Load>(), routing);
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
