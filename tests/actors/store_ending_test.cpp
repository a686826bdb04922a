// What an engine that ends writes before, and how long it may take: as `rondo serve` ends on SIGTERM.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine_inside.hpp"
#include "tests/actors/held_disk.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::HeldDisk;
using testing::HeldDiskTest;
using testing::must;
using testing::settings_of;

/// What the store has not been given yet is given to it, and whoever waits hears when all is on the disk.
TEST_F(HeldDiskTest, ADrainWritesWhatTheStoreAndTheCacheHave) {
    start();
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 5; ++i) prompts.push_back(ids_of(i, 200));
    disk_.hold(HeldDisk::everything);
    const std::vector<Heard> heard = ask_at_once(prompts, 4);
    ASSERT_LT(figures().queue_sequences, 5) << "the others wait in the cache";
    std::optional<bool> drained;
    const auto host = [&drained](caf::event_based_actor* self, const router_actor& router) {
        self->request(router, caf::infinite, drain_atom::value).then([&drained](bool all) { drained = all; });
    };
    stage_->system().spawn(host, stage_->inside().router());
    stage_->run();
    EXPECT_EQ(figures().queue_sequences, 5);
    pump_until([this] { return disk_.held() > 0; });
    EXPECT_FALSE(drained.has_value()) << "nothing is written";
    disk_.let_go();
    pump_until([&drained] { return drained.has_value(); });
    EXPECT_TRUE(*drained);
    stage_.reset();
    start();
    for (size_t i = 0; i < prompts.size(); ++i) {
        const Heard back = turn_in_no_time(continue_ids(joined(prompts[i], heard[i].ids), 4));
        EXPECT_EQ(back.ends[0].usage.restored_tokens, 203);
    }
}

/// An engine with threads of its own, whose disk may hang.
class StoreEndingTest : public ::testing::Test {
protected:
    static constexpr size_t conversations = 3;
    static constexpr const char* asked = "What is the code of the red box?";

    void start() {
        disk_.let_go();
        engine_.reset();
        EngineInside::Hooks hooks;
        hooks.disk = disk_.maker();
        hooks.taken_within_s = 60.0;  // what is stored must come back
        engine_ = must(
            EngineInside::open(settings_of({testing::demo_pool(21), "devices.cpu.threads=1", "memory.disk.free_mib=0",
                                            "memory.disk.min_tokens=16", "memory.disk.path=" + folder_.path() + "/kv"}),
                               {}, std::move(hooks)));
    }
    static std::string id(size_t number) { return "c" + std::to_string(number); }
    static std::string told(size_t number) {
        return "The code of the red box is " + std::to_string(4817 + 111 * number) + ".";
    }
    /// Each conversation is told something else. Their KV is more than the store takes at a time.
    void talk() {
        for (size_t i = 0; i < conversations; ++i) {
            const Engine::Reply reply = engine_->ask(chat(id(i), told(i) + " " + asked)).get();
            EXPECT_EQ(reply.text, told(i));
            const TurnUsage& usage = reply.end.usage;
            known_.push_back(usage.prompt_tokens + usage.completion_tokens - 1);
        }
    }
    /// As `rondo serve` waits when it is told to end. False: some is not written.
    bool drain(std::chrono::milliseconds limit) {
        const auto over = std::chrono::steady_clock::now() + limit;
        while (!engine_->put_away(std::chrono::milliseconds(100)))
            if (std::chrono::steady_clock::now() >= over) return false;
        return true;
    }
    /// The same, within the limit and some time for a machine that has much else to do.
    bool drain_in_time(std::chrono::milliseconds limit) {
        std::future<bool> drained = std::async(std::launch::async, [&] { return drain(limit); });
        const bool in_time = drained.wait_for(limit + std::chrono::seconds(20)) == std::future_status::ready;
        EXPECT_TRUE(in_time) << "it waits for the disk";
        if (!in_time) disk_.let_go();
        return drained.get();
    }
    /// After a start of its own the conversation goes on, and this many tokens of it come from the disk.
    int64_t restored_of(size_t conversation) {
        start();
        Ask next = chat(id(conversation), asked);
        next.goes_on = true;
        const Engine::Reply reply = engine_->ask(std::move(next)).get();
        EXPECT_EQ(reply.text, told(conversation)) << reply.end.error.message;
        return reply.end.usage.restored_tokens;
    }

    testing::Folder folder_;
    std::unique_ptr<Engine> engine_;
    std::vector<int64_t> known_;  // tokens that have keys, of each conversation
    HeldDisk disk_;
};

TEST_F(StoreEndingTest, WhatIsDirtyIsWrittenWithinTheLimit) {
    start();
    disk_.hold(HeldDisk::everything);
    talk();
    EXPECT_EQ(inside(*engine_).store_figures().records, 0U);
    disk_.let_go();
    EXPECT_TRUE(drain_in_time(std::chrono::seconds(30)));
    for (size_t i = 0; i < conversations; ++i) EXPECT_EQ(restored_of(i), known_[i]);
}

/// Nobody waits longer than he says. The disk comes back in the end, and so does what hung.
TEST_F(StoreEndingTest, ADiskThatHangsHoldsUpNoEnd) {
    start();
    disk_.hold(HeldDisk::everything);
    talk();
    EXPECT_FALSE(drain_in_time(std::chrono::milliseconds(0)));
    EXPECT_FALSE(drain_in_time(std::chrono::milliseconds(300)));
    disk_.let_go();
    EXPECT_TRUE(drain_in_time(std::chrono::seconds(30)));
    EXPECT_EQ(restored_of(0), known_[0]);
}

/// A disk that has written all and made nothing durable. The conversations are there all the same, and their KV comes
/// back whole or is computed.
TEST_F(StoreEndingTest, AnEndWithoutDelayLosesNoConversation) {
    start();
    disk_.hold([](const DiskWork& work) { return work.kind == DiskWork::Kind::sync; });
    talk();
    EXPECT_FALSE(drain_in_time(std::chrono::milliseconds(0)));
    disk_.let_go();  // the engine's end waits for what the disk has begun
    const auto begin = std::chrono::steady_clock::now();
    engine_.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    for (size_t i = 0; i < conversations; ++i) {
        const int64_t restored = restored_of(i);
        EXPECT_TRUE(restored == 0 || restored == known_[i]) << restored;
    }
}

}  // namespace
}  // namespace rondo
