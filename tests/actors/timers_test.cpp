// Time limits: those that are met leave nothing behind, and those that are not end what they limit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::Busy;
using testing::chat;
using testing::Heard;
using testing::question;
using testing::small_settings;
using testing::Stage;

size_t timers(Stage& stage) {
    return stage.scheduler().clock().schedule().size();
}

/// The router sends itself one message for the earliest deadline; those of later ones that were sent before change
/// nothing.
TEST(Deadlines, DoNotMultiplyMessages) {
    Stage stage(small_settings());
    Busy busy(stage);
    caf::anon_send_exit(stage.pipeline().stages.decode, caf::exit_reason::kill);
    busy.run();
    const size_t before = timers(stage);
    std::vector<Heard> heard(8);
    for (size_t i = 0; i < heard.size(); ++i) {
        Ask ask = chat("", question);
        ask.deadline_seconds = 100.0 - 10.0 * static_cast<double>(i);
        stage.engine().ask(std::move(ask), heard[i].callbacks());
        busy.run();
    }
    for (int i = 0; i < 95; ++i) busy.pass(std::chrono::seconds(1));
    for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i].ends.size(), i == 0 ? 0U : 1U) << i;
    EXPECT_LE(timers(stage), before + 2);
    stage.run();
    EXPECT_EQ(heard[0].ends.size(), 1U);
}

/// By itself CAF keeps a request's timer, and the actor that asked, until it is due.
class Timers : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Timers, GoWithTheAnswers) {
    Stage stage(small_settings(GetParam()));
    for (int i = 0; i < 10; ++i) {
        Heard heard;
        stage.engine().ask(chat(i % 2 == 0 ? "" : "c", question), heard.callbacks());
        stage.run();
        ASSERT_EQ(heard.ends.size(), 1U);
        EXPECT_NE(heard.ends[0].outcome, TurnOutcome::failed) << heard.ends[0].error.message;
        const TurnAttention& attention = heard.ends[0].attention;
        EXPECT_EQ(attention.selections > 2, attention.method == "progressive") << attention.selections;
    }
    EXPECT_LE(timers(stage), 3U);  // the router's, for the first deadline, and those of the stages that watch a device
}

/// The second has the selector choose, several times in an answer.
INSTANTIATE_TEST_SUITE_P(Methods, Timers,
                         ::testing::Values(std::vector<std::string>{"pipeline.decode.attention.method=dense"},
                                           std::vector<std::string>{"pipeline.decode.attention.method=progressive",
                                                                    "pipeline.decode.attention.budget_tokens=24",
                                                                    "pipeline.decode.attention.cold_tokens=1",
                                                                    "pipeline.decode.attention.reselect_every=3",
                                                                    "pipeline.decode.attention.observe=2",
                                                                    "pipeline.decode.attention.window=4"}));

/// One timer is there for all steps: what hangs is found when it comes, or when it comes again.
TEST(TimeLimits, ADeviceThatHangsFailsItsTurns) {
    for (const size_t tokens : {1, 5}) {
        Stage stage(small_settings());
        Heard heard;
        stage.engine().ask(chat("a", question), heard.callbacks());
        while (heard.ids.size() < tokens) ASSERT_TRUE(stage.run_one());
        Busy busy(stage);
        busy.run();
        busy.pass(std::chrono::seconds(119));
        EXPECT_EQ(heard.ends.size(), 0U);
        busy.pass(std::chrono::seconds(2));
        EXPECT_EQ(heard.ends.size(), tokens == 1 ? 1U : 0U);
        busy.pass(std::chrono::seconds(121));
        ASSERT_EQ(heard.ends.size(), 1U);
        EXPECT_EQ(heard.ends[0].outcome, TurnOutcome::failed);
        EXPECT_THAT(heard.ends[0].error.message, ::testing::HasSubstr("a stage of the pipeline failed"));
        stage.run();
        EXPECT_EQ(stage.inside().load().turns, 0U);
    }
}

}  // namespace
}  // namespace rondo
