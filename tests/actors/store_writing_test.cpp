// KV on its way to the disk while others need its room.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/actors/held_disk.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::HeldDisk;
using testing::HeldDiskTest;
using testing::settings_of;

class StoreWritingTest : public HeldDiskTest {
protected:
    cache_actor cache() { return stage_->pipeline().stages.cache; }
    /// Asks for so many free blocks, as a decode step does.
    void make_room(size_t blocks) {
        caf::anon_send(cache(), room_atom::value, pool().shape().blocks_of_each(static_cast<int64_t>(blocks)));
        stage_->run();
    }
    /// As a turn that waits and is taken back: these ids are used last, and nothing more becomes of it.
    void look_at(const std::vector<int32_t>& ids) {
        constexpr TurnId nobodys = uint64_t{1} << 40;
        caf::anon_send(cache(), claim_atom::value,
                       std::make_shared<PromptClaim>(PromptClaim{nobodys, PrefixSpace{"t"}, ids}));
        caf::anon_send(cache(), withdraw_atom::value, nobodys);
        stage_->run();
    }
    size_t blocks_free() { return pool().blocks_free(LayerGroup::upper); }
    size_t blocks_total() { return pool().blocks_total(LayerGroup::upper); }

    /// A small pool, of which two turns have given five blocks to the store.
    void begin_small() {
        start({testing::demo_pool(21)});
        dirty_ = ask_at_once(prompts_, 4);
        ASSERT_EQ(figures().queue_sequences, 2);
        ASSERT_EQ(blocks_free(), blocks_total() - 5);
    }
    /// So many tokens that no more than two blocks of the pool are left, prompt and answer together.
    int64_t tokens_of_nearly_all() { return static_cast<int64_t>(blocks_total() - 2) * kv_block_tokens - 4; }
    std::vector<int32_t> nearly_all() { return ids_of(2, static_cast<int>(tokens_of_nearly_all()) - 4); }
    Heard again(size_t prompt) {
        return turn_in_no_time(continue_ids(joined(joined(prompts_[prompt], dirty_[prompt].ids), {5, 6}), 4));
    }

    const std::vector<std::vector<int32_t>> prompts_{ids_of(0, 28), ids_of(1, 44)};
    std::vector<Heard> dirty_;
};

/// What is on the disk already makes room, though it was used later than what waits to be written.
TEST_F(StoreWritingTest, WhatIsWrittenGoesBeforeWhatIsNot) {
    start();
    const std::vector<int32_t> clean = ids_of(0, 200), at_the_store = ids_of(1, 640), dirty = ids_of(2, 200);
    const Heard first = turn(continue_ids(clean, 4));
    wait_until_written();
    ask_at_once({at_the_store}, 4);
    const std::vector<Heard> waits = ask_at_once({dirty}, 4);
    ASSERT_EQ(figures().queue_sequences, 1) << "the store has enough to do";
    ASSERT_EQ(figures().written, 1);
    look_at(joined(clean, first.ids));
    const size_t enough = blocks_free() + 13;
    make_room(enough);
    EXPECT_EQ(blocks_free(), enough);
    const Heard kept = turn_in_no_time(continue_ids(joined(joined(dirty, waits[0].ids), {5, 6}), 4));
    EXPECT_EQ(kept.ends[0].usage.cached_tokens, 203);
    const Heard back = turn_in_no_time(continue_ids(joined(joined(clean, first.ids), {5, 6}), 4));
    EXPECT_EQ(back.ends[0].usage.cached_tokens, 0);
    EXPECT_EQ(back.ends[0].usage.restored_tokens, 203);
}

/// Who needs the room of what waits to be written waits for that; then it comes back from the disk.
TEST_F(StoreWritingTest, WhatIsNotWrittenIsWrittenBeforeItGoes) {
    begin_small();
    Heard next;
    stage_->engine().ask(continue_ids(nearly_all(), 4), next.callbacks());
    stage_->run();
    stage_->pass(std::chrono::milliseconds(90));
    EXPECT_TRUE(next.ids.empty());
    EXPECT_TRUE(next.ends.empty()) << next.ends[0].error.message;
    EXPECT_EQ(figures().queue_sequences, 2) << "nothing is given up yet";
    pump_until([this] { return figures().queue_sequences == 0; });
    run_until([&next] { return !next.ends.empty(); });
    EXPECT_EQ(next.ids.size(), 4U);
    wait_until_written();
    EXPECT_EQ(figures().written, 3);
    const auto first = again(0).ends[0].usage, second = again(1).ends[0].usage;
    EXPECT_EQ(first.cached_tokens, 0);
    EXPECT_EQ(first.restored_tokens, 31);
    EXPECT_EQ(second.cached_tokens, 0);
    EXPECT_EQ(second.restored_tokens, 47);
}

/// The store has copied one turn and waits for the disk before it copies the other one, whose three blocks it holds.
class HangingDiskTest : public StoreWritingTest {
protected:
    void begin() {
        begin_small();
        disk_.hold(HeldDisk::everything);
        pump_until([this] { return figures().queue_sequences == 1 && disk_.held() > 0; });
    }
    /// Until the turn ends, for half a second at the most.
    void wait_for(const Heard& heard) {
        for (int i = 0; i < 50 && heard.ends.empty(); ++i) {
            caf::anon_send(stage_->inside().store(), pump_atom::value);
            stage_->pass(std::chrono::milliseconds(10));
        }
        ASSERT_EQ(heard.ends.size(), 1U) << "it waits for the disk";
    }
    /// What was copied is written when the disk goes on, and so is the turn that went on meanwhile; what was given up
    /// is computed.
    void check_what_became_of_them() {
        EXPECT_GT(disk_.held(), 0U);
        disk_.let_go();
        wait_until_written();
        EXPECT_EQ(figures().written, 2);
        make_room(blocks_total());
        ASSERT_EQ(blocks_free(), blocks_total()) << "nobody holds any";
        EXPECT_EQ(again(0).ends[0].usage.restored_tokens, 31);
        EXPECT_EQ(again(1).ends[0].usage.restored_tokens, 0);
    }
};

TEST_F(HangingDiskTest, HoldsUpNoPromptThatNeedsTheRoom) {
    begin();
    Heard next;
    stage_->engine().ask(continue_ids(nearly_all(), 4), next.callbacks());
    wait_for(next);
    EXPECT_EQ(next.ids.size(), 4U);
    EXPECT_GE(next.ends[0].timings.first_token, 0.09) << "the disk has had its time";
    EXPECT_LE(next.ends[0].timings.first_token, 0.15);
    check_what_became_of_them();
}

TEST_F(HangingDiskTest, HoldsUpNoAnswerThatNeedsTheRoom) {
    begin();
    const auto answer = static_cast<size_t>(tokens_of_nearly_all() - 100);
    Heard next;
    stage_->engine().ask(continue_ids(ids_of(2, 100), static_cast<int64_t>(answer)), next.callbacks());
    stage_->run();
    EXPECT_GT(next.ids.size(), answer - 50);
    EXPECT_LT(next.ids.size(), answer) << "its last block is one of the three";
    wait_for(next);
    EXPECT_EQ(next.ids.size(), answer);
    EXPECT_EQ(next.ends[0].timings.preemptions, 0);
    EXPECT_GE(next.ends[0].timings.decode, 0.09) << "the disk has had its time";
    EXPECT_LE(next.ends[0].timings.decode, 0.15);
    check_what_became_of_them();
}

/// The store waits for the disk before it copies a long turn. So what the cache has of two others waits for the store:
/// as long a turn, and behind it a conversation's first.
class PuttingAwayTest : public StoreWritingTest {
protected:
    void begin() {
        start();
        disk_.hold(HeldDisk::everything);
        // The store may have a quarter of the pool: these two, and no third.
        const auto long_turn = static_cast<int>(blocks_total() / 4 - 2) * kv_block_tokens - 3;
        ask_at_once({ids_of(0, 28)}, 4);
        ask_at_once({ids_of(1, long_turn)}, 4);
        ASSERT_EQ(figures().queue_sequences, 2);
        pump_until([this] { return figures().queue_sequences == 1 && disk_.held() > 0; });
        ask_at_once({ids_of(2, long_turn)}, 4);
        say("The code of the red box is 4817. It may rain later this week. The road was long.");
        ASSERT_EQ(figures().queue_sequences, 1);
    }
    void say(const std::string& text) {
        Heard heard;
        stage_->engine().ask(chat(name_.id, text), heard.callbacks());
        stage_->run();
        ASSERT_EQ(heard.ends.size(), 1U);
    }
    /// Nobody waits for the answer.
    void put_away() {
        caf::anon_send(stage_->inside().router(), away_atom::value, name_);
        stage_->run();
        EXPECT_EQ(figures().queue_sequences, 2) << "at once, and not behind the long turn";
    }
    void write(int64_t records) {
        disk_.let_go();
        run_until([this, records] { return figures().written == records; });
    }

    const ConversationName name_{"t", "c"};
};

TEST_F(PuttingAwayTest, WhatWaitedForTheStoreLeavesMemoryWithTheRest) {
    begin();
    put_away();
    write(4);
    EXPECT_EQ(answer<int64_t>(away_atom::value, name_), 0) << "nothing of it is left";
    EXPECT_EQ(figures().unwritten, 0);
}

/// What is said before the store has copied the rest is none of it.
TEST_F(PuttingAwayTest, WhatIsSaidMeanwhileIsWrittenAsAnyOther) {
    begin();
    put_away();
    say("What is the code of the red box?");
    EXPECT_EQ(figures().queue_sequences, 2) << "it waits for the store";
    write(5);
    EXPECT_GT(answer<int64_t>(away_atom::value, name_), 0) << "it is in memory still";
    EXPECT_EQ(figures().unwritten, 0);
}

/// A conversation counts as one turn, though it was put away behind its turn.
TEST_F(PuttingAwayTest, WhatIsGivenUpTwiceIsCountedOnce) {
    start();
    disk_.hold(HeldDisk::everything);
    ask_at_once({ids_of(0, 28)}, 4);
    say("The code of the red box is 4817.");
    pump_until([this] { return figures().queue_sequences == 1 && disk_.held() > 0; });
    put_away();
    make_room(blocks_total());
    stage_->pass(std::chrono::milliseconds(110));
    EXPECT_EQ(figures().queue_sequences, 0);
    EXPECT_EQ(figures().unwritten, 1);
}

/// Its turn was not counted when it was no longer to wait for the store.
TEST_F(PuttingAwayTest, WhatIsPutAwayAndGivenUpIsCounted) {
    begin();
    put_away();
    make_room(blocks_total());
    stage_->pass(std::chrono::milliseconds(110));
    EXPECT_EQ(figures().queue_sequences, 1) << "the other long turn";
    EXPECT_EQ(figures().unwritten, 2);
}

/// The end of a turn leaves the cache while it waits for the store, and the store has to give up the rest.
TEST_F(StoreWritingTest, WhatLeavesMemoryInTwoPartsIsCountedOnce) {
    begin_small();
    disk_.hold(HeldDisk::everything);
    const auto layers = static_cast<size_t>(pool().shape().layers);
    pump_until([this, layers] { return figures().queue_sequences == 1 && disk_.held() == layers; });
    ask_at_once({ids_of(2, 100)}, 4);
    ASSERT_EQ(figures().queue_sequences, 1) << "the store has enough to do";
    const size_t enough = blocks_free() + 4;  // the two of the turn that is copied, and two of the last one
    make_room(enough);
    ASSERT_EQ(blocks_free(), enough);
    disk_.let_go();
    disk_.hold(HeldDisk::everything);
    pump_until([this] { return figures().unwritten == 1; });
    ASSERT_EQ(figures().queue_sequences, 1) << "it waits behind one whose record the disk does not write";
    make_room(blocks_total());
    stage_->pass(std::chrono::milliseconds(110));
    EXPECT_EQ(figures().queue_sequences, 0);
    EXPECT_EQ(figures().unwritten, 1);
}

/// Of two answers that grow the later one gives way. When it comes back its keys are on the disk, and most of them not
/// in the pool any more.
TEST_F(StoreWritingTest, WhoGivesWayIsPutAwayAndReadBack) {
    const std::vector<std::vector<int32_t>> prompts{ids_of(0, 100), ids_of(1, 100)};
    std::vector<std::vector<int32_t>> undisturbed;
    start(testing::demo_in_f32(21));
    // Neither has the pool for itself before it is half done, and the first one alone then needs most of it.
    const auto pool_tokens = static_cast<int64_t>(blocks_total()) * kv_block_tokens;
    const std::vector<int64_t> lengths{pool_tokens - 156, pool_tokens / 2 - 68};
    start(testing::demo_in_f32(170));
    for (size_t i = 0; i < prompts.size(); ++i) undisturbed.push_back(turn(continue_ids(prompts[i], lengths[i])).ids);
    stage_.reset();
    std::filesystem::remove_all(folder_.path() + "/kv");

    start(testing::demo_in_f32(21));
    std::vector<Heard> heard(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i)
        stage_->engine().ask(continue_ids(prompts[i], lengths[i]), heard[i].callbacks());
    while (figures().queue_sequences == 0) ASSERT_TRUE(stage_->run_one());
    for (const Heard& one : heard) ASSERT_TRUE(one.ends.empty());
    pump_store_alone_until([this] { return figures().written == 1; });
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    EXPECT_EQ(heard[0].ends[0].timings.preemptions, 0);
    EXPECT_EQ(heard[1].ends[0].timings.preemptions, 1);
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(heard[i].ids, undisturbed[i]);
    const int64_t at_first = 2 * 99;  // that both turns asked for when they came
    EXPECT_GT(figures().tokens_restored, 50);
    EXPECT_EQ(figures().tokens_restored, figures().tokens_asked - at_first) << "nothing of it was computed again";
}

}  // namespace
}  // namespace rondo
