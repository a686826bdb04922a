// Conversations' KV on a disk: put away behind their turns, and brought back when the pool has lost it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/actors/held_disk.hpp"
#include "tests/flip_bit.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::HeldDisk;
using testing::HeldDiskTest;
using testing::question;
using testing::settings_of;
using testing::Stage;
using testing::StoreActorTest;

TEST_F(StoreActorTest, AHistoryComesBackAfterARestart) {
    start();
    EXPECT_TRUE(figures().serves);
    const Heard first = turn(continue_ids(some_ids(100), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(100), first.ids), {5, 6, 7});
    wait_until_written();
    EXPECT_EQ(figures().written, 1);
    EXPECT_EQ(figures().queue_bytes, 0U);
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
    start(testing::demo_in_f32(170));
    turn(continue_ids(some_ids(300), 20));
    wait_until_written();
    std::vector<int32_t> edited = some_ids(300);
    for (size_t i = 280; i < 300; ++i) edited[i] = 3;
    const Heard undisturbed = turn(continue_ids(edited, 20));
    start(testing::demo_in_f32(170));
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
    const auto known = answer<int64_t>(away_atom::value, ConversationName{"t", "c"});
    start();
    const auto usage = turn(chat("c", "And of the blue one?")).ends[0].usage;
    EXPECT_EQ(usage.restored_tokens, known);
    EXPECT_EQ(usage.cached_tokens, 0);
    wait_until_written();
    EXPECT_EQ(figures().written, 1) << "the new round alone";
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

/// Its user has heard the end of his turn, and need not know that a stage still has it.
TEST_F(StoreActorTest, AConversationIsPutAwayWhenItsCancelledTurnIsOver) {
    start();
    Heard heard;
    const TurnId turn = stage_->engine().ask(chat("c", "What is the code of the red box?"), heard.callbacks());
    run_until([&] { return heard.ids.size() > 2 || !heard.ends.empty(); });
    stage_->engine().cancel(turn);
    EXPECT_GT(answer<int64_t>(away_atom::value, ConversationName{"t", "c"}), 16);
}

/// It is decided when it comes, while a stage has the cancelled turn: one that is asked for behind it changes nothing.
TEST_F(StoreActorTest, AConversationIsPutAwayThoughATurnComesBehindThat) {
    start();
    Heard first, second;
    const TurnId cancelled = stage_->engine().ask(chat("c", "What is the code of the red box?"), first.callbacks());
    while (first.ids.size() < 3) ASSERT_TRUE(stage_->run_one());
    testing::Busy busy(*stage_);
    stage_->engine().cancel(cancelled);
    std::optional<int64_t> away;
    const auto host = [&](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, away_atom::value, ConversationName{"t", "c"})
            .then([&away](int64_t tokens) { away = tokens; }, [&away](const caf::error&) { away = -1; });
    };
    stage_->system().spawn(host, stage_->engine().front());
    busy.run();
    stage_->engine().ask(chat("c", "Hello!", 4), second.callbacks());
    busy.run();
    ASSERT_EQ(first.ends.size(), 1U);
    EXPECT_FALSE(away) << "a stage still has the turn";
    run_until([&] { return away && !second.ends.empty(); });
    EXPECT_GE(*away, 0) << "it was refused";
    EXPECT_NE(second.ends[0].outcome, TurnOutcome::failed) << second.ends[0].error.message;
}

/// A question that is asked again finds what was computed of it; who rests, or is deleted, leaves nothing of it.
TEST_F(StoreActorTest, RoundsThatWereTakenBackLeaveMemoryToo) {
    start();
    const std::string question = "It may rain later this week. The road was long. What is the code of the red box?";
    for (const std::string id : {"rests", "is removed"}) {
        const ConversationName name{"t", id};
        const auto take_back = [&] { answer<ConversationInfoPtr>(rewind_atom::value, name, int64_t{1}); };
        const auto told = turn(chat(id, "The code of the red box is 4817.")).ends[0].usage;
        turn(chat(id, question));
        wait_until_written();
        take_back();
        EXPECT_GT(turn(chat(id, question)).ends[0].usage.cached_tokens, told.prompt_tokens + told.completion_tokens);
        take_back();
        turn(chat(id, "Where does Ann live?"));
        take_back();
        wait_until_written();
        if (id == "rests") {
            EXPECT_GT(answer<int64_t>(away_atom::value, name), 16);
            EXPECT_EQ(figures().records, 1U) << "of the others nothing stays on the disk either";
        } else {
            EXPECT_TRUE(answer<bool>(remove_atom::value, name));
        }
        run_until([&] { return stage_->inside().load().blocks_cached == 0; });
    }
}

/// All of it is stored, and nearly all of it comes back: a place of each record is just before its last token.
TEST_F(StoreActorTest, OfALongHistoryAFewTokensAreComputedToWarmIt) {
    start();
    const ConversationName name{"t", "c"};
    std::string text;
    while (text.size() < 1200) text += "The code of the red box is 4817. ";
    turn(chat("c", text));
    wait_until_written();
    EXPECT_GT(answer<int64_t>(away_atom::value, name), 300);
    Ask warm;
    warm.conversation = name;
    warm.warms = true;
    const TurnEnd warmed = turn(warm).ends[0];
    EXPECT_GT(warmed.usage.restored_tokens, 300);
    EXPECT_LE(warmed.usage.recomputed_tokens, kv_block_tokens + 1);
}

TEST_F(StoreActorTest, WhatStandsBehindADroppedRoundIsWarmed) {
    start();
    const ConversationName name{"t", "c"};
    for (const char* text : {"Hello!", "The code of the red box is 4817.", "Thanks."}) turn(chat("c", text));
    answer<ConversationInfoPtr>(drop_atom::value, name, RoundList{0});
    Ask warm;
    warm.conversation = name;
    warm.warms = true;
    const Heard warmed = turn(warm);
    EXPECT_EQ(warmed.ends[0].outcome, TurnOutcome::length) << warmed.ends[0].error.message;
    EXPECT_GT(warmed.ends[0].usage.recomputed_tokens, 30);
    const Heard next = turn(chat("c", "What is the code of the red box?"));
    EXPECT_GE(next.ends[0].usage.cached_tokens, warmed.ends[0].usage.prompt_tokens - 1);
}

TEST_F(StoreActorTest, WithoutAStoreNothingIsPutAway) {
    stage_.emplace(settings_of({testing::demo_pool(170), "devices.cpu.threads=1"}));
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

TEST_F(StoreActorTest, WhatIsDamagedIsComputed) {
    start(testing::demo_in_f32(170));
    const Heard first = turn(continue_ids(some_ids(100), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(100), first.ids), {5, 6, 7});
    wait_until_written();
    const Heard undisturbed = turn(continue_ids(next, 12));
    wait_until_written();
    stage_.reset();
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/kv"))
        if (entry.is_regular_file()) testing::flip_bit(entry.path(), 4096 + 4096 + 100);
    start(testing::demo_in_f32(170));
    const Heard computed = turn(continue_ids(next, 12));
    EXPECT_EQ(computed.ids, undisturbed.ids);
    EXPECT_EQ(computed.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(figures().damaged, 1);
    EXPECT_EQ(figures().tokens_failed, 119);
}

/// Where a layer of the first record that was written begins in its file, if that has so many tokens.
uint64_t layer_of_first_record(const KvShape& shape, size_t tokens, int layer) {
    RecordHeader header;
    header.kind = {{}, shape.atom.dtype, shape.layers, shape.kv_heads, shape.atom.head_dim};
    header.ids.resize(tokens);
    header.layers.resize(static_cast<size_t>(shape.layers));
    header.lay_out();
    return disk_alignment + header.layers.at(static_cast<size_t>(layer)).offset;  // behind the file's own header
}

/// The prompt's chunk has passed the layers that came when a later one turns out to be damaged.
TEST_F(HeldDiskTest, WhatIsDamagedInALaterLayerIsComputedThoughAChunkHasBegun) {
    constexpr int layers_come = 3, damaged = 5;
    start(testing::demo_in_f32(170));
    const Heard first = turn(continue_ids(some_ids(300), 20));
    const std::vector<int32_t> next = joined(joined(some_ids(300), first.ids), {5, 6, 7});
    wait_until_written();
    const Heard undisturbed = turn(continue_ids(next, 20));
    wait_until_written();
    const uint64_t hangs_from = layer_of_first_record(pool().shape(), 319, layers_come);
    const uint64_t flipped = layer_of_first_record(pool().shape(), 319, damaged) + 100;
    const auto layers = static_cast<size_t>(pool().shape().layers);
    stage_.reset();
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/kv"))
        if (entry.is_regular_file() && entry.file_size() > flipped) testing::flip_bit(entry.path(), flipped);

    start(testing::demo_in_f32(170));
    disk_.hold([=](const DiskWork& work) { return HeldDisk::reads(work) && work.offset >= hangs_from; });
    const uint64_t pieces_before = stage_->inside().progress().done;
    Heard computed;
    stage_->engine().ask(continue_ids(next, 20), computed.callbacks());
    const auto begun = [&] { return stage_->inside().progress().done > pieces_before; };
    run_until([&] { return begun() && disk_.held() == layers - layers_come; });
    EXPECT_EQ(figures().damaged, 0) << "nobody has seen that layer yet";
    EXPECT_TRUE(computed.ids.empty());
    disk_.let_go();
    run_until([&computed] { return !computed.ends.empty(); });
    EXPECT_EQ(computed.ids, undisturbed.ids);
    EXPECT_EQ(computed.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(computed.ends[0].usage.recomputed_tokens, 323);
    EXPECT_EQ(figures().damaged, 1);
    EXPECT_EQ(figures().tokens_failed, 319);
}

/// Many who wait for a disk that hangs, and one who needs nothing of it.
TEST_F(HeldDiskTest, WhoComesBackHoldsUpNobody) {
    start();
    std::vector<std::vector<int32_t>> prompts;
    std::vector<std::vector<int32_t>> undisturbed;
    for (int i = 0; i < 6; ++i) {
        const Heard first = turn(continue_ids(ids_of(i, 200), 4));
        prompts.push_back(joined(joined(ids_of(i, 200), first.ids), {5, 6}));
    }
    for (const auto& prompt : prompts) undisturbed.push_back(turn(continue_ids(prompt, 4)).ids);
    wait_until_written();
    start();
    disk_.hold(HeldDisk::reads);
    std::vector<Heard> heard(prompts.size());
    Heard other;
    for (size_t i = 0; i < prompts.size(); ++i) stage_->engine().ask(continue_ids(prompts[i], 4), heard[i].callbacks());
    stage_->engine().ask(continue_ids({1, 2, 3, 4, 5}, 20), other.callbacks());
    run_until([&other] { return !other.ends.empty(); });
    EXPECT_EQ(other.ids.size(), 20U);
    EXPECT_EQ(disk_.held(), prompts.size()) << "all are being read";
    for (const Heard& one : heard) EXPECT_TRUE(one.ids.empty());
    disk_.let_go();
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(heard[i].ids, undisturbed[i]);
        EXPECT_EQ(heard[i].ends[0].usage.restored_tokens, 203);
    }
    EXPECT_EQ(figures().tokens_restored, 203 * std::ssize(prompts));
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

TEST_F(StoreActorTest, WhatThePoolLosesComesBackFromTheDisk) {
    start({testing::demo_pool(21)});
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
