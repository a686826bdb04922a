// Conversations' KV on a disk: put away behind their turns, and brought back when the pool has lost it.

#include "actors/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <thread>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::settings_of;
using testing::Stage;

class StoreActorTest : public ::testing::Test {
protected:
    std::vector<std::string> overrides(std::vector<std::string> more = {}) const {
        std::vector<std::string> all{"memory.device_kv_mib=8", "devices.cpu.threads=1", "memory.disk.free_mib=0",
                                     "memory.disk.min_tokens=16", "memory.disk.path=" + folder_.path() + "/kv"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    void start(std::vector<std::string> more = {}) {
        stage_.reset();
        stage_.emplace(settings_of(overrides(std::move(more))));
    }
    /// Disk and device work on threads of their own; what they have done is taken up here.
    void run_until(const std::function<bool()>& done) {
        for (int i = 0; i < 20'000 && !done(); ++i) {
            if (stage_->inside().store()) caf::anon_send(stage_->inside().store(), pump_atom::value);
            stage_->pass(std::chrono::microseconds(100));
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        stage_->run();
        ASSERT_TRUE(done());
    }
    Heard turn(Ask ask) {
        Heard heard;
        stage_->engine().ask(std::move(ask), heard.callbacks());
        run_until([&heard] { return !heard.ends.empty(); });
        return heard;
    }
    void wait_until_written() {
        std::atomic<bool> idle{false};
        caf::scoped_actor self(stage_->system());
        auto asked = self->request(stage_->inside().store(), caf::infinite, drain_atom::value);
        std::thread answered([&] { asked.receive([&](bool) { idle = true; }, [](const caf::error&) {}); });
        // The scoped actor waits on its own thread, and messages are delivered on this one.
        run_until([&idle] { return idle.load(); });
        answered.join();
    }
    /// What the router answers, or why not. The scoped actor waits on its own thread, messages are delivered on this
    /// one.
    template <class Answer, class... Request>
    Result<Answer> asked(Request... request) {
        std::optional<Result<Answer>> got;
        std::atomic<bool> done{false};
        caf::scoped_actor self(stage_->system());
        auto sent = self->request(stage_->engine().front(), caf::infinite, request...);
        std::thread waits([&] {
            sent.receive([&](const Answer& value) { got = value; },
                         [&](const caf::error& error) { got = from_caf(error, "the router"); });
            done = true;
        });
        run_until([&done] { return done.load(); });
        waits.join();
        return *got;
    }
    template <class Answer, class... Request>
    Answer answer(Request... request) {
        Result<Answer> got = asked<Answer>(std::move(request)...);
        EXPECT_TRUE(got) << (got ? "" : got.error().message);
        return got ? *got : Answer();
    }
    template <class Answer, class... Request>
    bool failed(Request... request) {
        return !asked<Answer>(std::move(request)...);
    }
    /// Of each large segment a byte. Returns how many there are.
    int damage_the_middle() const {
        int damaged = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/kv")) {
            if (!entry.is_regular_file() || entry.file_size() < 100'000) continue;
            std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
            file.put('x');
            ++damaged;
        }
        return damaged;
    }
    const StoreFigures& figures() { return stage_->inside().store_figures(); }
    static std::vector<int32_t> some_ids(int count) {
        std::vector<int32_t> ids(static_cast<size_t>(count));
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(10 + 7 * i % 400);
        return ids;
    }
    static std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }

    testing::Folder folder_;
    std::optional<Stage> stage_;
};

TEST_F(StoreActorTest, AHistoryComesBackAfterARestart) {
    start();
    EXPECT_TRUE(figures().serves);
    const Heard first = turn(continue_ids(some_ids(100), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(100), first.ids), {5, 6, 7});
    wait_until_written();
    EXPECT_EQ(figures().written, 1);
    const Heard undisturbed = turn(continue_ids(next, 20));
    EXPECT_EQ(undisturbed.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(undisturbed.ends[0].usage.cached_tokens, 119);

    start();
    const Heard restored = turn(continue_ids(next, 20));
    EXPECT_EQ(restored.ids, undisturbed.ids);
    EXPECT_EQ(restored.ends[0].usage.cached_tokens, 0);
    EXPECT_EQ(restored.ends[0].usage.restored_tokens, 119);
    EXPECT_EQ(restored.ends[0].usage.recomputed_tokens, 4);
    wait_until_written();
    EXPECT_EQ(figures().written, 1) << "of the first round nothing is written again";
}

/// Who edits what he asked has the beginning of a round that is stored.
TEST_F(StoreActorTest, APromptThatGoesOnOtherwiseFindsItsBeginning) {
    start();
    turn(continue_ids(some_ids(300), 20));
    wait_until_written();
    std::vector<int32_t> edited = some_ids(300);
    for (size_t i = 280; i < 300; ++i) edited[i] = 3;
    const Heard undisturbed = turn(continue_ids(edited, 20));
    start();
    const Heard restored = turn(continue_ids(edited, 20));
    EXPECT_EQ(restored.ids, undisturbed.ids);
    EXPECT_EQ(restored.ends[0].usage.restored_tokens, 256);
}

TEST_F(StoreActorTest, RoundsOfAConversationAreStoredOneByOneAndFoundAgain) {
    start();
    for (const char* text : {"Hello!", "The code of the red box is 4817.", "What is the code of the red box?"})
        turn(chat("c", text));
    wait_until_written();
    EXPECT_EQ(figures().written, 3);
}

TEST_F(StoreActorTest, AConversationIsPutAwayAndWarmedAgain) {
    start();
    turn(chat("c", "The code of the red box is 4817."));
    turn(chat("d", "Hello!"));
    const int64_t others = stage_->inside().load().blocks_cached;
    const Heard second = turn(chat("c", "What is the code of the red box?"));
    wait_until_written();
    const ConversationName name{"t", "c"};
    const int64_t away = answer<int64_t>(away_atom::value, name);
    EXPECT_EQ(away, second.ends[0].usage.prompt_tokens + second.ends[0].usage.completion_tokens - 1);
    EXPECT_LT(stage_->inside().load().blocks_cached, others);
    EXPECT_EQ(answer<int64_t>(away_atom::value, name), 0) << "there is nothing left";
    EXPECT_EQ(figures().written, 3) << "it was on the disk already";

    Ask warm;
    warm.conversation = name;
    warm.warms = true;
    const Heard warmed = turn(warm);
    EXPECT_TRUE(warmed.ids.empty());
    EXPECT_EQ(warmed.ends[0].outcome, TurnOutcome::length);
    EXPECT_GT(warmed.ends[0].usage.restored_tokens, 0);
    wait_until_written();
    EXPECT_EQ(figures().written, 3) << "it was on the disk already";
    const Heard third = turn(chat("c", "And of the blue one?"));
    EXPECT_GE(third.ends[0].usage.cached_tokens, away);
    EXPECT_EQ(third.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(answer<ConversationInfoPtr>(list_atom::value, name)->rounds.size(), 3U) << "warming is no round";

    EXPECT_TRUE(failed<int64_t>(away_atom::value, ConversationName{"t", "nobody"}));
    warm.conversation = {"t", "nobody"};
    EXPECT_EQ(turn(warm).ends[0].error.code, ErrorCode::not_found);
    warm.conversation = {};
    EXPECT_EQ(turn(warm).ends[0].error.code, ErrorCode::invalid_argument);
}

TEST_F(StoreActorTest, WithoutAStoreNothingIsPutAway) {
    stage_.emplace(settings_of({"memory.device_kv_mib=8", "devices.cpu.threads=1"}));
    turn(chat("c", "Hello!"));
    EXPECT_TRUE(failed<int64_t>(away_atom::value, ConversationName{"t", "c"}));
    Ask warm;
    warm.conversation = {"t", "c"};
    warm.warms = true;
    EXPECT_GT(turn(warm).ends[0].usage.cached_tokens, 0) << "it is in memory";
}

/// What is in memory of a conversation that was deleted goes too, but for what others have in common with it.
TEST_F(StoreActorTest, ADeletedConversationLeavesMemory) {
    start();
    turn(chat("c", "The code of the red box is 4817."));
    EXPECT_GT(stage_->inside().load().blocks_cached, 0);
    wait_until_written();
    EXPECT_TRUE(answer<bool>(remove_atom::value, ConversationName{"t", "c"}));
    run_until([&] { return stage_->inside().load().blocks_cached == 0; });
}

TEST_F(StoreActorTest, AFolderThatCannotBeUsedIsSaidAndServingGoesOn) {
    std::ofstream(folder_.path() + "/kv") << "a file";
    std::vector<std::string> log;
    Engine::Options options;
    options.log = [&](const std::string& line) { log.push_back(line); };
    stage_.emplace(settings_of(overrides()), std::move(options));
    EXPECT_FALSE(figures().serves);
    EXPECT_THAT(log, ::testing::ElementsAre(::testing::HasSubstr("must be a folder")));
    EXPECT_EQ(turn(continue_ids(some_ids(40), 4)).ids.size(), 4U);
}

TEST_F(StoreActorTest, WhatIsDamagedIsComputed) {
    start();
    const Heard first = turn(continue_ids(some_ids(100), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(100), first.ids), {5, 6, 7});
    wait_until_written();
    const Heard undisturbed = turn(continue_ids(next, 20));
    wait_until_written();
    stage_.reset();
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/kv")) {
        if (!entry.is_regular_file()) continue;
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096 + 4096 + 100);
        file.put('x');
    }
    start();
    const Heard computed = turn(continue_ids(next, 20));
    EXPECT_EQ(computed.ids, undisturbed.ids);
    EXPECT_EQ(computed.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(figures().damaged, 1);
    EXPECT_EQ(figures().tokens_failed, 119);
}

/// The prompt's chunk has passed the layers that came when the next one turns out to be damaged.
TEST_F(StoreActorTest, WhatIsDamagedInALaterLayerIsComputedThoughAChunkHasBegun) {
    start();
    const Heard first = turn(continue_ids(some_ids(300), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(300), first.ids), {5, 6, 7});
    wait_until_written();
    const Heard undisturbed = turn(continue_ids(next, 20));
    wait_until_written();
    stage_.reset();
    ASSERT_EQ(damage_the_middle(), 1);
    start();
    const Heard computed = turn(continue_ids(next, 20));
    EXPECT_EQ(computed.ids, undisturbed.ids);
    EXPECT_EQ(computed.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(computed.ends[0].usage.recomputed_tokens, 323);
    EXPECT_EQ(figures().damaged, 1);
    EXPECT_EQ(figures().tokens_failed, 319);
}

/// Many who wait for the disk, and one who needs nothing of it.
TEST_F(StoreActorTest, WhoComesBackHoldsUpNobody) {
    start();
    std::vector<std::vector<int32_t>> prompts;
    std::vector<std::vector<int32_t>> undisturbed;
    for (int i = 0; i < 6; ++i) {
        std::vector<int32_t> ids = some_ids(200);
        ids[0] = 300 + i;
        const Heard first = turn(continue_ids(ids, 4));
        prompts.push_back(joined(joined(ids, first.ids), {5, 6}));
    }
    for (const auto& prompt : prompts) undisturbed.push_back(turn(continue_ids(prompt, 4)).ids);
    wait_until_written();
    start();
    std::vector<Heard> heard(prompts.size() + 1);
    for (size_t i = 0; i < prompts.size(); ++i) stage_->engine().ask(continue_ids(prompts[i], 4), heard[i].callbacks());
    stage_->engine().ask(continue_ids({1, 2, 3, 4, 5}, 4), heard.back().callbacks());
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    int64_t restored = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(heard[i].ids, undisturbed[i]);
        restored += heard[i].ends[0].usage.restored_tokens;
    }
    EXPECT_EQ(heard[0].ends[0].usage.restored_tokens, 203) << "later ones may be computed sooner, as was measured";
    EXPECT_EQ(figures().tokens_restored, restored);
}

TEST_F(StoreActorTest, ATurnMayBeCancelledWhileItComesBack) {
    start();
    const size_t free = stage_->inside().pool().blocks_free(LayerGroup::upper);
    const Heard first = turn(continue_ids(some_ids(900), 4));
    wait_until_written();
    start();
    for (int steps = 0; steps < 90; steps += 3) {
        Heard heard;
        const TurnId id = stage_->engine().ask(continue_ids(joined(some_ids(900), first.ids), 4), heard.callbacks());
        for (int i = 0; i < steps && stage_->run_one(); ++i) {
        }
        stage_->engine().cancel(id);
        run_until([&heard] { return !heard.ends.empty(); });
        run_until([&] { return stage_->inside().load().turns == 0; });
        EXPECT_EQ(heard.ends.size(), 1U);
        // What is read for nobody lets go of its blocks when it has ended.
        run_until([&] {
            return stage_->inside().pool().blocks_free(LayerGroup::upper) +
                       static_cast<size_t>(stage_->inside().load().blocks_cached.load()) ==
                   free;
        });
    }
}

/// The store may hold a quarter of the pool: what is more than that waits in the cache.
TEST_F(StoreActorTest, WhatIsTooMuchAtATimeIsWrittenLater) {
    start();
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 4; ++i) {
        prompts.push_back(some_ids(200));
        prompts.back()[0] = 300 + i;
    }
    std::vector<Heard> heard(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) stage_->engine().ask(continue_ids(prompts[i], 4), heard[i].callbacks());
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    run_until([&] { return figures().written == std::ssize(prompts); });
    start();
    for (size_t i = 0; i < prompts.size(); ++i) turn(continue_ids(joined(prompts[i], heard[i].ids), 4));
    EXPECT_EQ(figures().tokens_found, 4 * 203);
}

/// What is exact is every method's, and lies on the disk once; what a method computed is its own.
TEST_F(StoreActorTest, MethodsShareWhatIsExact) {
    const auto begin = [&] { start({"pipeline.methods=[loopserve]"}); };
    const auto by_lines = [](std::vector<int32_t> ids) {
        Ask ask = continue_ids(std::move(ids), 20);
        ask.method = "loopserve";
        return ask;
    };
    begin();
    const Heard first = turn(continue_ids(some_ids(300), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(300), first.ids), {5, 6, 7});
    wait_until_written();
    ASSERT_EQ(figures().written, 1);
    begin();
    const Heard second = turn(by_lines(next));
    EXPECT_EQ(second.ends[0].usage.restored_tokens, 319);
    wait_until_written();
    EXPECT_EQ(figures().written, 1) << "its own round alone";
    const std::vector<int32_t> third = joined(joined(next, second.ids), {8, 9});
    begin();
    EXPECT_EQ(turn(continue_ids(third, 4)).ends[0].usage.restored_tokens, 319) << "the exact beginning";
    begin();
    EXPECT_EQ(turn(by_lines(third)).ends[0].usage.restored_tokens, 319 + 23);
    begin();
    const Heard dense = turn(continue_ids(third, 4)), after = turn(by_lines(joined(third, dense.ids)));
    EXPECT_EQ(after.ends[0].usage.cached_tokens, std::ssize(third) + 3) << "what dense computed since is exact";
}

/// Several who go on differently behind one history, one of whom may leave while it is read.
TEST_F(StoreActorTest, WhatSeveralWantIsReadOnce) {
    start();
    const Heard first = turn(continue_ids(some_ids(900), 4));
    std::vector<std::vector<int32_t>> prompts, undisturbed;
    for (int i = 0; i < 4; ++i) prompts.push_back(joined(joined(some_ids(900), first.ids), {5, 6 + i}));
    for (const auto& prompt : prompts) undisturbed.push_back(turn(continue_ids(prompt, 4)).ids);
    wait_until_written();
    start();
    turn(continue_ids(prompts[0], 4));
    const uint64_t read_once = figures().bytes_read;
    ASSERT_GT(read_once, 0U);
    for (int steps = 0; steps < 80; steps += 8) {
        start();
        std::vector<Heard> heard(prompts.size());
        std::vector<TurnId> turns;
        for (size_t i = 0; i < prompts.size(); ++i)
            turns.push_back(stage_->engine().ask(continue_ids(prompts[i], 4), heard[i].callbacks()));
        for (int i = 0; i < steps && stage_->run_one(); ++i) {
        }
        const auto leaves = static_cast<size_t>(steps / 8) % (2 * prompts.size());
        if (leaves < prompts.size()) stage_->engine().cancel(turns[leaves]);
        run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
        for (size_t i = 0; i < prompts.size(); ++i) {
            if (i == leaves) continue;
            EXPECT_EQ(heard[i].ids, undisturbed[i]);
            EXPECT_EQ(heard[i].ends[0].usage.cached_tokens + heard[i].ends[0].usage.restored_tokens, 903);
        }
        if (leaves >= prompts.size()) {
            EXPECT_EQ(figures().bytes_read, read_once);
        }
    }
}

/// The store dies: who read computes what has not come, and so does who waited.
TEST_F(StoreActorTest, WhatSeveralWantMayNeverCome) {
    start();
    const Heard first = turn(continue_ids(some_ids(900), 4));
    std::vector<std::vector<int32_t>> prompts, undisturbed;
    for (int i = 0; i < 3; ++i) prompts.push_back(joined(joined(some_ids(900), first.ids), {5, 6 + i}));
    for (const auto& prompt : prompts) undisturbed.push_back(turn(continue_ids(prompt, 4)).ids);
    wait_until_written();
    for (int steps = 10; steps < 70; steps += 6) {
        start();
        std::vector<Heard> heard(prompts.size());
        for (size_t i = 0; i < prompts.size(); ++i)
            stage_->engine().ask(continue_ids(prompts[i], 4), heard[i].callbacks());
        for (int i = 0; i < steps && stage_->run_one(); ++i) {
        }
        caf::anon_send_exit(stage_->inside().store(), caf::exit_reason::kill);
        run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
        for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(heard[i].ids, undisturbed[i]) << steps;
        EXPECT_FALSE(figures().serves);
    }
}

/// All who wait for what is damaged compute it.
TEST_F(StoreActorTest, WhatSeveralWantMayBeDamaged) {
    start();
    const Heard first = turn(continue_ids(some_ids(900), 4));
    std::vector<std::vector<int32_t>> prompts, undisturbed;
    for (int i = 0; i < 3; ++i) prompts.push_back(joined(joined(some_ids(900), first.ids), {5, 6 + i}));
    for (const auto& prompt : prompts) undisturbed.push_back(turn(continue_ids(prompt, 4)).ids);
    wait_until_written();
    stage_.reset();
    ASSERT_EQ(damage_the_middle(), 1);
    start();
    std::vector<Heard> heard(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) stage_->engine().ask(continue_ids(prompts[i], 4), heard[i].callbacks());
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(heard[i].ids, undisturbed[i]);
    EXPECT_GT(figures().damaged, 0);
}

TEST_F(StoreActorTest, WhatThePoolLosesComesBackFromTheDisk) {
    start({"memory.device_kv_mib=1"});
    const int64_t context = stage_->engine().context_tokens();
    const int size = static_cast<int>(context) * 2 / 3;
    std::vector<int32_t> other = some_ids(size);
    std::ranges::reverse(other);
    const Heard first = turn(continue_ids(some_ids(size), 4));
    turn(continue_ids(other, 4));  // takes the room
    const Heard again = turn(continue_ids(joined(some_ids(size), joined(first.ids, {3})), 4));
    EXPECT_EQ(again.ends[0].usage.cached_tokens + again.ends[0].usage.restored_tokens, size + 3);
    EXPECT_GT(again.ends[0].usage.restored_tokens, 0);
}

}  // namespace
}  // namespace rondo
