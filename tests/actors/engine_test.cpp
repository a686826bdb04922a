// An engine on a host's actor system may go while what it began still calls back; one of its own has few workers.

#include "actors/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <thread>

#include "actors/engine_inside.hpp"
#include "actors/gateway/answer_exchange.hpp"
#include "memory/machine_memory.hpp"
#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::must;
using testing::settings_of;
using testing::small_settings;

class HostedEngine : public ::testing::Test {
protected:
    HostedEngine() {
        config_.set("scheduler.max-threads", size_t{4});  // one of which a test may hold up
        system = std::make_unique<caf::actor_system>(config_);
        Engine::Options options;
        options.host = system.get();
        engine = must(Engine::open(small_settings(), options));
    }

    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system;
    std::unique_ptr<Engine> engine;
};

/// Each worker that a message wakes takes a core from the step under way.
TEST(Engine, HasFewWorkersOfItsOwn) {
    const auto engine = must(Engine::open(small_settings()));
    EXPECT_LE(engine->system().scheduler().num_workers(), std::max(std::thread::hardware_concurrency() / 4, 2U));
}

// A host has it from its engine, and never sees what turns are counted with.
static_assert(!std::is_constructible_v<Asker, caf::actor_system&, front_actor, std::shared_ptr<std::atomic<TurnId>>>);

TEST_F(HostedEngine, WhatIsAskedForAfterItsEndFails) {
    const Asker asker = engine->asker();
    engine.reset();
    std::promise<TurnEnd> over;
    TurnCallbacks callbacks;
    callbacks.on_end = [&](TurnEnd end) { over.set_value(std::move(end)); };
    asker.cancel(asker.ask(chat("c", "Hello!"), std::move(callbacks)));
    const TurnEnd end = over.get_future().get();
    EXPECT_EQ(end.outcome, TurnOutcome::failed);
    EXPECT_EQ(end.error.code, ErrorCode::cancelled);
    EXPECT_EQ(end.error.message, "the engine has ended and serves nothing any more") << "no retry helps";
}

bool goes_soon(const std::weak_ptr<const Runtime>& runtime) {
    for (int i = 0; i < 2000 && !runtime.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return runtime.expired();
}

/// Timers for what never came hold the actors that asked for them, some for as long as a turn may take.
TEST_F(HostedEngine, NothingOfTheModelOutlivesIt) {
    const std::weak_ptr runtime = inside(*engine).runtime();
    EXPECT_NE(engine->ask(chat("c", "Hello!")).get().end.outcome, TurnOutcome::failed);
    engine.reset();
    EXPECT_TRUE(goes_soon(runtime));
}

/// CAF's logger lives as long as a thread that has met its system, and a system as long as its logger.
TEST(EngineEnd, WaitsForNoThreadThatHasAsked) {
    auto engine = must(Engine::open(small_settings()));
    std::promise<void> asked, ended, let_go;
    std::thread asker([&] {
        (void)engine->ask(chat("c", "Hello!", 1)).get();
        asked.set_value();
        let_go.get_future().wait();
    });
    asked.get_future().wait();
    std::thread ending([&] {
        engine.reset();
        ended.set_value();
    });
    EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    let_go.set_value();
    asker.join();
    ending.join();
}

/// The actor that calls back is one of those that the end waits for.
TEST(EngineEnd, MayComeInACallback) {
    std::shared_ptr<Engine> engine = must(Engine::open(small_settings()));
    std::weak_ptr runtime = inside(*engine).runtime();
    std::promise<void> over;
    TurnCallbacks callbacks;
    callbacks.on_end = [&](TurnEnd) {
        engine.reset();
        over.set_value();
    };
    engine->ask(chat("c", "Hello!", 4), std::move(callbacks));
    ASSERT_EQ(over.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_TRUE(goes_soon(runtime));

    engine = must(Engine::open(small_settings()));
    runtime = inside(*engine).runtime();
    callbacks = {};
    callbacks.on_end = [engine](TurnEnd) {};  // the last who holds it
    Engine* const raw = engine.get();
    raw->ask(chat("c", "Hello!", 64), std::move(callbacks));
    engine.reset();
    EXPECT_TRUE(goes_soon(runtime));
}

TEST(EngineEnd, MayComeWhenNothingIsServedAnyMore) {
    std::unique_ptr<Engine> engine;
    std::promise<void> over;
    Engine::Options options;
    options.gave_up = [&](const Error&) {
        engine.reset();
        over.set_value();
        throw std::runtime_error("a host must not");
    };
    engine = must(Engine::open(small_settings(), options));
    const std::weak_ptr<const Runtime> runtime = inside(*engine).runtime();
    caf::anon_send_exit(inside(*engine).router(), caf::exit_reason::kill);
    ASSERT_EQ(over.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_TRUE(goes_soon(runtime));
}

TEST(EngineStore, PutsAwayForAsLongAsItTakes) {
    const auto engine = must(Engine::open(small_settings()));
    EXPECT_TRUE(engine->put_away(std::chrono::milliseconds::max())) << "without a store nothing has to be there";
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
    Ask ask = chat("c", "Hello!", 4000);
    ask.options.ignore_eos = true;      // it goes on while the engine ends
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

TEST_F(HostedEngine, TextsBecomeIdsAndTextsAgain) {
    const std::vector<int32_t> ids = must(engine->tokenize("The code of the red box is 4817."));
    EXPECT_GT(ids.size(), 4U);
    EXPECT_THAT(must(engine->detokenize(ids)), ::testing::HasSubstr("The code of the red box is 4817."));
    EXPECT_EQ(must(engine->detokenize({})), "");
    Ask ask;
    ask.ids = ids;
    ask.options.tokens_max = 4;
    EXPECT_EQ(engine->ask(std::move(ask)).get().end.usage.prompt_tokens, std::ssize(ids));
    for (const int32_t id : {-1, INT32_MAX}) {
        const auto text = engine->detokenize(std::vector{id});
        ASSERT_FALSE(text.is_ok());
        EXPECT_EQ(text.error().code, ErrorCode::out_of_range);
        EXPECT_THAT(text.error().message, ::testing::HasSubstr("must be 0 to"));
    }
}

TEST_F(HostedEngine, SaysWhatItIs) {
    EXPECT_FALSE(engine->model_name().empty());
    EXPECT_GT(engine->context_tokens(), 0);
    EXPECT_EQ(engine->methods().at(0).name, "dense");
    EXPECT_THAT(engine->device_names(), ::testing::StartsWith("cpu (1 thread"));
}

/// By calls as by messages: what a retry can do is told by more than a line.
TEST_F(HostedEngine, FailuresKeepTheirKind) {
    const auto missing = engine->conversation({"t", "nobody"});
    ASSERT_FALSE(missing.is_ok());
    EXPECT_EQ(missing.error().code, ErrorCode::not_found);
    EXPECT_EQ(engine->create({"t", "a\nb"}, {}).error().code, ErrorCode::invalid_argument);
    Ask ask = chat("c", "Hello!");
    ask.goes_on = true;
    const Engine::Reply reply = engine->ask(std::move(ask)).get();
    EXPECT_EQ(reply.end.outcome, TurnOutcome::failed);
    EXPECT_EQ(reply.end.error.code, ErrorCode::not_found);
    engine->shut_down();
    EXPECT_EQ(engine->conversation({"t", "nobody"}).error().code, ErrorCode::cancelled) << "no retry helps";
}

/// A host fills them by itself.
TEST(EngineSettings, DevicesThatAreNotThereAreRefusedAtTheStart) {
    Settings settings;
    settings.pipeline.prefill.on = {"none"};
    const auto engine = Engine::open(settings);
    ASSERT_FALSE(engine.is_ok());
    EXPECT_EQ(engine.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(engine.error().message, ::testing::HasSubstr("pipeline.prefill.on: is [\"none\"], must name one of"));
    settings.pipeline.prefill.on.clear();
    EXPECT_FALSE(Engine::open(settings).is_ok());
}

TEST(EngineSettings, NumbersBeyondTheirRangeAreRefusedAtTheStart) {
    Settings settings;
    settings.pipeline.decode.attention.observe = 0;
    const auto engine = Engine::open(settings);
    ASSERT_FALSE(engine.is_ok());
    EXPECT_EQ(engine.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(engine.error().message,
              "settings: pipeline.decode.attention.observe: is 0, must be a whole number 1 to 256");
}

/// Memory is taken as it fills, so what is not there would be missed by somebody's answer.
TEST(EngineMemory, MoreThanTheMachineHasIsRefusedAtTheStart) {
    const std::string mib = std::to_string((machine_memory_bytes() >> 20) + 1);
    const auto engine = Engine::open(settings_of({"memory.device_kv_mib=" + mib}));
    ASSERT_FALSE(engine.is_ok());
    EXPECT_EQ(engine.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(engine.error().message, ::testing::HasSubstr("memory.device_kv_mib is " + mib));
}

/// Both grow together, until the kernel ends the process.
TEST(EngineMemory, WeightsAndKvMustFitTheMachineTogether) {
    const std::string mib = std::to_string(machine_memory_bytes() >> 20);
    const auto engine = Engine::open(settings_of({"memory.device_kv_mib=" + mib}));
    ASSERT_FALSE(engine.is_ok());
    EXPECT_EQ(engine.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(engine.error().message, ::testing::HasSubstr("memory.device_kv_mib is " + mib + "; together they"));
}

/// What a CPU computes lies in host memory already.
TEST(EngineMemory, HostMemoryInFrontOfTheDiskIsForGpus) {
    const auto engine = Engine::open(settings_of({"memory.host_kv_mib=64", "memory.disk.path=nowhere"}));
    ASSERT_FALSE(engine.is_ok());
    EXPECT_EQ(engine.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(engine.error().message,
              "memory.host_kv_mib is 64; it must be 0 on CPUs, whose pool is host memory: memory.device_kv_mib may be "
              "larger");
    EXPECT_FALSE(std::filesystem::exists("nowhere"));
}

}  // namespace
}  // namespace rondo
