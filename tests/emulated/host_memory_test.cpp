#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "actors/engine_inside.hpp"
#include "config/settings.hpp"
#include "tests/memory/store/store_fixture.hpp"

/// Conversations of an engine on the emulated GPU, which come back from its host's memory.
namespace rondo {
namespace {

class EmulatedHostMemory : public ::testing::Test {
protected:
    Settings settings(std::vector<std::string> more = {}) const {
        std::vector<std::string> all{"devices.gpu={kind: cuda, ordinal: 0}", "memory.device_kv_mib=8",
                                     "memory.host_kv_mib=64", "memory.disk.free_mib=0", "memory.disk.min_tokens=16"};
        all.push_back("memory.disk.path=" + folder_.path() + "/kv");
        all.insert(all.end(), more.begin(), more.end());
        return settings_from_yaml("", "test", all).value();
    }
    void start(const std::vector<std::string>& more = {}) {
        engine_.reset();
        auto opened = Engine::open(settings(more));
        ASSERT_TRUE(opened) << opened.error().message;
        engine_ = std::move(*opened);
    }
    Engine::Reply say(const std::string& text) {
        Ask ask;
        ask.conversation = name_;
        ask.messages = {{"user", text}};
        ask.options.tokens_max = 2;
        ask.options.ignore_eos = true;
        return engine_->ask(std::move(ask)).get();
    }
    void put_away() {
        const Result<int64_t> tokens = engine_->put_away(name_);
        ASSERT_TRUE(tokens) << tokens.error().message;
        EXPECT_GT(*tokens, 0);
        EXPECT_TRUE(engine_->put_away(std::chrono::seconds(60)));
    }
    const StoreFigures& figures() { return inside(*engine_).store_figures(); }
    /// As GET /v1/store tells.
    uint64_t host_bytes_of(const std::string& tenant) {
        uint64_t bytes = 0;
        caf::scoped_actor self(engine_->system());
        self->request(inside(*engine_).store(), std::chrono::seconds(60), list_atom::value, tenant)
            .receive([&](const StoreUse& use) { bytes = use.host_bytes; },
                     [](const caf::error&) { ADD_FAILURE() << "the store must answer"; });
        return bytes;
    }
    /// Figures are told a moment later.
    bool comes_true(const std::function<bool()>& is) {
        for (int i = 0; i < 10'000 && !is(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return is();
    }

    testing::Folder folder_;
    const ConversationName name_{"t", "c"};
    std::unique_ptr<Engine> engine_;
};

TEST_F(EmulatedHostMemory, WhatWasPutAwayComesBackFromThereAsItWas) {
    const std::string first = "The code of the red box is 4817.", second = "What is it?";
    start({"memory.disk.path=", "memory.host_kv_mib=0"});
    say(first);
    const std::vector<int32_t> undisturbed = say(second).ids;
    ASSERT_FALSE(undisturbed.empty());
    start();
    say(first);
    put_away();
    EXPECT_TRUE(comes_true([&] { return figures().host_records > 0 && figures().host_records == figures().records; }));
    const Engine::Reply back = say(second);
    EXPECT_EQ(back.ids, undisturbed);
    EXPECT_GT(back.end.usage.restored_tokens, 16);
    EXPECT_TRUE(comes_true([&] { return figures().host_bytes_copied > 0; }));
    EXPECT_GT(figures().host_found, 0);
    EXPECT_GT(figures().host_seconds_copying, 0.0);
    EXPECT_GE(figures().host_bytes_filled, figures().host_bytes);
    EXPECT_GT(figures().host_seconds_filling, 0.0);
    EXPECT_EQ(figures().bytes_read, 0U);
    EXPECT_EQ(figures().seconds_reading, 0.0);
    EXPECT_GT(figures().seconds_writing, 0.0);
    EXPECT_EQ(host_bytes_of("t"), figures().host_bytes);
    EXPECT_EQ(host_bytes_of("u"), 0U);

    const Result<bool> removed = engine_->remove(name_);
    ASSERT_TRUE(removed) << removed.error().message;
    EXPECT_TRUE(comes_true([&] { return figures().host_records == 0 && figures().records == 0; }));
    EXPECT_EQ(figures().host_bytes, 0U);
}

TEST_F(EmulatedHostMemory, AfterARestartTheDiskIsReadOnce) {
    const std::string first = "The code of the red box is 4817.", second = "What is it?";
    start();
    say(first);
    put_away();
    start();
    EXPECT_GT(say(second).end.usage.restored_tokens, 16);
    EXPECT_TRUE(comes_true([&] { return figures().host_records > 0; }));
    const uint64_t read = figures().bytes_read;
    EXPECT_GT(read, 0U);
    EXPECT_EQ(figures().host_found, 0);
    put_away();
    EXPECT_GT(say("And now?").end.usage.restored_tokens, 16);
    EXPECT_TRUE(comes_true([&] { return figures().host_found > 0; }));
    EXPECT_EQ(figures().bytes_read, read);
    EXPECT_THAT(inside(*engine_).metrics().text({}), ::testing::HasSubstr("rondo:store_host_records_read_total{"));
}

TEST_F(EmulatedHostMemory, MoreThanTheMachineHasIsRefusedInOneLine) {
    const auto engine = Engine::open(settings({"memory.host_kv_mib=16777216"}));
    ASSERT_FALSE(engine.is_ok());
    EXPECT_THAT(engine.error().message,
                ::testing::HasSubstr("memory.host_kv_mib is 16777216; it must be below the machine's memory, "));
    EXPECT_THAT(engine.error().message, ::testing::Not(::testing::HasSubstr("\n")));
}

}  // namespace
}  // namespace rondo
