#include "actors/gateway/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/gateway/gateway.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/transport/http_server_fixture.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::must;
using testing::question;
using testing::small_settings;
using testing::Stage;
using Moment = std::chrono::steady_clock::time_point;
using std::chrono::seconds;

Moment moment(int64_t ns) {
    return Moment(std::chrono::nanoseconds(ns));
}

TEST(Health, DoesNotMindThatNothingIsAsked) {
    Stage stage(small_settings());
    EXPECT_TRUE(Health(stage.engine()).look(std::chrono::steady_clock::now() + std::chrono::hours(24)).good);
}

/// However alive every thread is: under the test scheduler nothing moves unless it is told to.
TEST(Health, FailsWhenAskedTurnsDoNotMove) {
    Stage stage(small_settings());
    const Health health(stage.engine());
    Heard heard;
    stage.engine().ask(chat("c", question), heard.callbacks());
    while (stage.inside().load().turns == 0) ASSERT_TRUE(stage.run_one());
    const Moment asked = moment(stage.inside().load().busy_since_ns);
    EXPECT_TRUE(health.look(asked + seconds(29)).good);
    const Health::Verdict verdict = health.look(asked + seconds(31));
    EXPECT_FALSE(verdict.good);
    EXPECT_THAT(verdict.reason, ::testing::HasSubstr("no device did anything for 31 s"));

    while (stage.inside().progress().last_ns == 0) ASSERT_TRUE(stage.run_one());
    ASSERT_EQ(stage.inside().load().turns, 1U);
    const Moment moved = moment(stage.inside().progress().last_ns);
    ASSERT_GT(moved, asked);
    EXPECT_TRUE(health.look(moved + seconds(29)).good);
    EXPECT_FALSE(health.look(moved + seconds(31)).good) << "as a frozen device has it";

    stage.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_TRUE(health.look(moved + seconds(31)).good) << "nothing waits any more";
}

/// Though another device goes on.
TEST(Health, FailsWhenOneDeviceStaysAtItsWork) {
    Stage stage(small_settings());
    const Health health(stage.engine());
    const std::atomic<int64_t>& since = stage.inside().progress().at_work_since_ns[0];
    Heard heard;
    stage.engine().ask(chat("c", question), heard.callbacks());
    while (since == 0) ASSERT_TRUE(stage.run_one());
    const Moment begun = moment(since);
    EXPECT_TRUE(health.look(begun + seconds(29)).good);
    const Health::Verdict verdict = health.look(begun + seconds(31));
    EXPECT_FALSE(verdict.good);
    EXPECT_THAT(verdict.reason, ::testing::HasSubstr("at one piece of work for 31 s"));
    stage.run();
    EXPECT_EQ(since, 0);
    EXPECT_TRUE(health.look(begun + seconds(31)).good);
}

TEST(Health, FailsOnceThePipelineGaveUp) {
    Stage stage(small_settings());
    const Health health(stage.engine());
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(health.look(std::chrono::steady_clock::now()).good);
        caf::anon_send_exit(stage.pipeline().stages.decode, caf::exit_reason::kill);
        stage.run();
    }
    const Health::Verdict verdict = health.look(std::chrono::steady_clock::now());
    EXPECT_FALSE(verdict.good);
    EXPECT_THAT(verdict.reason, ::testing::HasSubstr("died too often"));
}

TEST(Health, IsWhatTheServerAnswers) {
    const auto engine = must(Engine::open(small_settings()));
    Gateway::Options options;
    options.server.port = 0;
    options.log.write = [](const std::string&) {};
    const auto gateway = must(Gateway::start(*engine, std::move(options)));
    HttpClient client(must(Url::parse("http://127.0.0.1:" + std::to_string(gateway->port()))));
    const auto ask = [&client](const char* path) {
        return must(client.request("GET", path, {}, "", std::chrono::steady_clock::now() + test_patience));
    };
    for (const char* path : {"/health", "/ready", "/metrics"}) EXPECT_EQ(ask(path).status, 200) << path;
    caf::anon_send_exit(inside(*engine).supervisor(), caf::exit_reason::kill);
    ASSERT_TRUE(becomes_true([&] { return inside(*engine).load().gave_up.load(); }));
    for (const char* path : {"/health", "/ready"}) {
        const HttpResponse refusal = ask(path);
        EXPECT_EQ(refusal.status, 503) << path;
        EXPECT_THAT(refusal.body, ::testing::HasSubstr(R"("code":"unhealthy")"));
        EXPECT_THAT(refusal.body, ::testing::HasSubstr("the pipeline has given up"));
    }
    EXPECT_EQ(ask("/metrics").status, 200) << "whoever looks for the reason may go on";
}

}  // namespace
}  // namespace rondo
