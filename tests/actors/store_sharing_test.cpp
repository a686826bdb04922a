// What several turns have of one disk, and what they leave to it.

#include <gtest/gtest.h>

#include <algorithm>

#include "config/checked.hpp"
#include "tests/actors/held_disk.hpp"

namespace rondo {
namespace {

using testing::continue_ids;
using testing::Heard;
using testing::HeldDisk;
using testing::HeldDiskTest;
using testing::StoreActorTest;

class StoreSharingTest : public StoreActorTest {
protected:
    /// So many go on differently behind one history that is stored; how each is answered where nobody disturbs it.
    void begin(int count, const std::vector<std::string>& how = {}) {
        start(how);
        const Heard first = turn(continue_ids(some_ids(900), 4));
        for (int i = 0; i < count; ++i) prompts_.push_back(joined(joined(some_ids(900), first.ids), {5, 6 + i}));
        for (const auto& prompt : prompts_) undisturbed_.push_back(turn(continue_ids(prompt, 4)).ids);
        wait_until_written();
    }
    /// For what is computed again, with room for three who do that each for himself.
    static std::vector<std::string> in_f32() { return testing::demo_in_f32(180); }

    std::vector<std::vector<int32_t>> prompts_, undisturbed_;
};

/// Several who go on differently behind one history, one of whom may leave while it is read.
TEST_F(StoreSharingTest, WhatSeveralWantIsReadOnce) {
    begin(4);
    start();
    turn(continue_ids(prompts_[0], 4));
    const uint64_t read_once = figures().bytes_read;
    ASSERT_GT(read_once, 0U);
    for (int steps = 0; steps < 80; steps += 8) {
        start();
        std::vector<Heard> heard(prompts_.size());
        std::vector<TurnId> turns;
        for (size_t i = 0; i < prompts_.size(); ++i)
            turns.push_back(stage_->engine().ask(continue_ids(prompts_[i], 4), heard[i].callbacks()));
        for (int i = 0; i < steps && stage_->run_one(); ++i) {
        }
        const auto leaves = static_cast<size_t>(steps / 8) % (2 * prompts_.size());
        if (leaves < prompts_.size()) stage_->engine().cancel(turns[leaves]);
        run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
        for (size_t i = 0; i < prompts_.size(); ++i) {
            if (i == leaves) continue;
            EXPECT_EQ(heard[i].ids, undisturbed_[i]);
            EXPECT_EQ(heard[i].ends[0].usage.cached_tokens + heard[i].ends[0].usage.restored_tokens, 903);
        }
        if (leaves >= prompts_.size()) {
            EXPECT_EQ(figures().bytes_read, read_once);
        }
    }
}

/// What is read for a turn that has left holds its blocks until then; nothing runs, and yet there is no room.
TEST_F(StoreSharingTest, WhoComesAfterOneThatLeftWaitsForWhatIsReadForIt) {
    begin(1);
    start({testing::demo_pool(85)});
    Heard left, next;
    const TurnId turn = stage_->engine().ask(continue_ids(prompts_[0], 4), left.callbacks());
    stage_->run();
    stage_->engine().cancel(turn);
    stage_->run();
    ASSERT_EQ(left.ends.size(), 1U);
    ASSERT_EQ(stage_->inside().load().running, 0);
    std::vector<int32_t> other = some_ids(1100);
    std::ranges::reverse(other);
    stage_->engine().ask(continue_ids(other, 4), next.callbacks());
    stage_->run();
    EXPECT_TRUE(next.ends.empty()) << next.ends[0].error.message;
    run_until([&next] { return !next.ends.empty(); });
    EXPECT_EQ(next.ends[0].outcome, TurnOutcome::length) << next.ends[0].error.message;
}

/// The disk hangs while a turn waits for what is read for another. It is cancelled, and the next turn of its
/// conversation is brought back: the store has let the first one go.
TEST_F(HeldDiskTest, WhoIsCancelledWhileItWaitsLeavesTheStore) {
    start();
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 2; ++i) {
        const Heard first = turn(continue_ids(ids_of(i, 200), 4));
        prompts.push_back(joined(joined(ids_of(i, 200), first.ids), {5, 6}));
    }
    wait_until_written();
    start();
    disk_.hold(HeldDisk::reads);
    const auto ask = [this](const std::vector<int32_t>& prompt, const std::string& conversation, Heard& heard) {
        Ask ask = continue_ids(prompt, 4);
        ask.conversation.id = conversation;
        const TurnId id = stage_->engine().ask(std::move(ask), heard.callbacks());
        stage_->run();
        return id;
    };
    Heard reads, waits, next;
    ask(prompts[0], "", reads);
    const TurnId waiting = ask(prompts[0], "c", waits);
    EXPECT_TRUE(reads.ids.empty());
    EXPECT_TRUE(waits.ids.empty());
    stage_->engine().cancel(waiting);
    stage_->run();
    ASSERT_EQ(waits.ends.size(), 1U);
    EXPECT_EQ(waits.ends[0].outcome, TurnOutcome::cancelled);
    EXPECT_EQ(stage_->inside().load().turns, 1U);
    ask(prompts[1], "c", next);
    EXPECT_TRUE(next.ids.empty()) << "it was computed: the store was not asked";
    disk_.let_go();
    run_until([&] { return !reads.ends.empty() && !next.ends.empty(); });
    EXPECT_EQ(reads.ends[0].usage.restored_tokens, 203);
    EXPECT_EQ(next.ends[0].usage.restored_tokens, 203);
}

/// The store dies: who read computes what has not come, and so does who waited.
TEST_F(StoreSharingTest, WhatSeveralWantMayNeverCome) {
    begin(3, in_f32());
    for (int steps = 10; steps < 70; steps += 6) {
        start(in_f32());
        std::vector<Heard> heard(prompts_.size());
        for (size_t i = 0; i < prompts_.size(); ++i)
            stage_->engine().ask(continue_ids(prompts_[i], 4), heard[i].callbacks());
        for (int i = 0; i < steps && stage_->run_one(); ++i) {
        }
        caf::anon_send_exit(stage_->inside().store(), caf::exit_reason::kill);
        run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
        for (size_t i = 0; i < prompts_.size(); ++i) EXPECT_EQ(heard[i].ids, undisturbed_[i]) << steps;
        EXPECT_FALSE(figures().serves);
    }
}

/// All who wait for what is damaged compute it.
TEST_F(StoreSharingTest, WhatSeveralWantMayBeDamaged) {
    begin(3, in_f32());
    stage_.reset();
    ASSERT_EQ(damage_the_middle(), 1);
    start(in_f32());
    std::vector<Heard> heard(prompts_.size());
    for (size_t i = 0; i < prompts_.size(); ++i)
        stage_->engine().ask(continue_ids(prompts_[i], 4), heard[i].callbacks());
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    for (size_t i = 0; i < prompts_.size(); ++i) EXPECT_EQ(heard[i].ids, undisturbed_[i]);
    EXPECT_GT(figures().damaged, 0);
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
    const Heard further = turn(by_lines(third));
    EXPECT_EQ(further.ends[0].usage.restored_tokens, 319 + 23);
    wait_until_written();
    const std::vector<int32_t> fourth = joined(joined(third, further.ids), {4});
    begin();
    EXPECT_EQ(turn(continue_ids(fourth, 4)).ends[0].usage.restored_tokens, 319)
        << "what was computed behind what came back is no more exact than that";
    begin();
    EXPECT_EQ(turn(by_lines(fourth)).ends[0].usage.restored_tokens, std::ssize(third) + 19);
    begin();
    const Heard dense = turn(continue_ids(third, 4)), after = turn(by_lines(joined(third, dense.ids)));
    EXPECT_EQ(after.ends[0].usage.cached_tokens, std::ssize(third) + 3) << "what dense computed since is exact";
}

/// The store may hold a quarter of the pool: what is more than that waits in the cache, and is written when there is
/// less to do.
TEST_F(HeldDiskTest, WhatIsTooMuchAtATimeIsWrittenLater) {
    start();
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 5; ++i) prompts.push_back(ids_of(i, 200));
    const std::vector<Heard> heard = ask_at_once(prompts, 4);
    const auto share = static_cast<int64_t>(pool().blocks_total(LayerGroup::upper)) / 4;
    const int64_t blocks = ceil_div<int64_t>(203, kv_block_tokens);
    ASSERT_LT(share / blocks, std::ssize(prompts));
    EXPECT_EQ(figures().queue_sequences, share / blocks);
    run_until([&] { return figures().written == std::ssize(prompts); });
    start();
    for (size_t i = 0; i < prompts.size(); ++i) {
        const Heard again = turn_in_no_time(continue_ids(joined(prompts[i], heard[i].ids), 4));
        EXPECT_EQ(again.ends[0].usage.restored_tokens, 203);
    }
}

/// No more than 64 turns wait in the cache: those that have waited for the longest are given up, and computed again
/// some day. Each of these turns has one block.
TEST_F(HeldDiskTest, TheNumberOfThoseThatAreWrittenLaterIsBounded) {
    constexpr int64_t later_most = 64, too_many = 6;
    start({"pipeline.decode.batch_max=4"});  // so that nobody needs the room of those who wait
    const auto share = static_cast<int64_t>(pool().blocks_total(LayerGroup::upper)) / 4;
    const int64_t count = share + later_most + too_many;
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < count; ++i) prompts.push_back(ids_of(i, kv_block_tokens));
    ask_at_once(prompts, 1);
    EXPECT_EQ(figures().queue_sequences, share);
    ASSERT_TRUE(answer<bool>(drain_atom::value));
    EXPECT_EQ(figures().written, share + later_most);
}

}  // namespace
}  // namespace rondo
