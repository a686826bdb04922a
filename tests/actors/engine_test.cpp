// An engine on a host's actor system may go while what it began still calls back; one of its own has few workers.

#include "actors/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "actors/gateway/answer_exchange.hpp"
#include "memory/machine_memory.hpp"
#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::must;
using testing::settings_of;

class HostedEngine : public ::testing::Test {
protected:
    HostedEngine() {
        config_.set("scheduler.max-threads", size_t{4});  // one of which a test may hold up
        system = std::make_unique<caf::actor_system>(config_);
        Engine::Options options;
        options.host = system.get();
        engine = must(Engine::open(settings_of({"memory.device_kv_mib=4", "devices.cpu.threads=1"}), options));
    }

    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system;
    std::unique_ptr<Engine> engine;
};

/// Each worker that a message wakes takes a core from the step under way.
TEST(Engine, HasFewWorkersOfItsOwn) {
    const auto engine = must(Engine::open(settings_of({"memory.device_kv_mib=4", "devices.cpu.threads=1"})));
    EXPECT_LE(engine->system().scheduler().num_workers(), std::max(std::thread::hardware_concurrency() / 4, 2U));
}

TEST_F(HostedEngine, WhatIsAskedForAfterItsEndFails) {
    const Asker asker = engine->asker();
    engine.reset();
    std::promise<TurnEnd> over;
    TurnPort::Callbacks callbacks;
    callbacks.on_end = [&](TurnEnd end) { over.set_value(std::move(end)); };
    asker.cancel(asker.ask(chat("c", "Hello!"), std::move(callbacks)));
    EXPECT_EQ(over.get_future().get().outcome, TurnOutcome::failed);
}

/// A client who takes nothing for a while.
struct HeldReply : HttpReply {
    void send(int, HttpHeaders, std::string) override {}
    void begin(int, HttpHeaders) override {}
    bool write(std::string piece) override {
        pieces.push_back(std::move(piece));
        if (pieces.size() == 1) {
            writing.set_value();
            go_on.get_future().wait();
        }
        return true;
    }
    void finish() override { finished.set_value(); }
    void on_gone(std::function<void()>) override {}

    std::vector<std::string> pieces;  // in the order they came; the exchange's lock guards them
    std::promise<void> writing, go_on, finished;
};

TEST_F(HostedEngine, AnAnswerThatIsBeingSentOutlivesIt) {
    const auto reply = std::make_shared<HeldReply>();
    AnswerRequest request;
    request.stream = true;
    Ask ask = chat("c", "Hello!");
    ask.options.sampling.logprobs = 2;  // which need the tokenizer
    std::make_shared<AnswerExchange>(*engine, std::make_shared<Exchange>(HttpRequest{}, reply, LogTo{}, std::string()),
                                     AnswerExchange::Api::chat, AnswerHead{}, std::move(request), std::move(ask))
        ->start();
    reply->writing.get_future().wait();
    engine.reset();
    reply->go_on.set_value();
    ASSERT_EQ(reply->finished.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    const auto with = [&](const char* what) {
        return std::ranges::count_if(reply->pieces,
                                     [&](const std::string& piece) { return piece.find(what) != std::string::npos; });
    };
    EXPECT_GE(with(R"("bytes":[)"), 1) << "a token was told of by the tokenizer of the engine that is gone";
    EXPECT_EQ(with(R"("error":)"), 1);
    EXPECT_THAT(reply->pieces.back(), ::testing::HasSubstr(R"(data: {"error":)"));
    EXPECT_EQ(with("[DONE]"), 0);
}

/// Memory is taken as it fills, so what is not there would be missed by somebody's answer.
TEST(EngineMemory, MoreThanTheMachineHasIsRefusedAtTheStart) {
    const std::string mib = std::to_string((machine_memory_bytes() >> 20) + 1);
    const auto engine = Engine::open(settings_of({"memory.device_kv_mib=" + mib}));
    ASSERT_FALSE(engine.is_ok());
    EXPECT_EQ(engine.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(engine.error().message, ::testing::HasSubstr("memory.device_kv_mib is " + mib));
}

}  // namespace
}  // namespace rondo
