// The first rounds of what is stored are computed while the others are read, where both take about as long.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/restoring_fixture.hpp"
#include "tests/flip_bit.hpp"

namespace rondo {
namespace {

using testing::RestoringTest;

/// Each prompt is four rounds of 64 tokens, and a disk begins at once.
class RestoringAheadTest : public RestoringTest {
protected:
    explicit RestoringAheadTest(uint64_t host_bytes = 0) : RestoringTest(512, host_bytes, 64) { bytes_to_begin_ = 0; }
    /// Computer and disk take a second each for a prompt.
    void even() {
        computer(1.0);
        disk(1.0);
    }
    void read_all() {
        held_.let_go();
        tasks_->run_until([this] {
            return std::ranges::all_of(restoring_->under_way(),
                                       [](const auto& one) { return one->whole().has_value(); });
        });
    }
    /// Asks for a prompt that somebody else's turn brings back.
    TurnPtr wait_for(int prompt, bool& answered) {
        const TurnPtr turn = bare_turn(prompt);
        restoring_->restore(taken(turn), [&answered] { answered = true; });
        EXPECT_FALSE(answered);
        return turn;
    }
};

TEST_F(RestoringAheadTest, HalfIsComputedWhileHalfIsRead) {
    even();
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    EXPECT_EQ(turn->ahead.begin, 0);
    EXPECT_EQ(turn->ahead.end, 128);
    EXPECT_EQ(turn->arrival->begin(), 128);
    EXPECT_EQ(turn->arrival->end(), 256);
    EXPECT_EQ(turn->restored_tokens, 128);
    EXPECT_EQ(turn->missing(), 128 + 1);
    EXPECT_EQ(restoring_->counts().ahead, 128);
    EXPECT_EQ(restoring_->counts().not_worth, 0);
    time_ += 0.5;
    read_all();
    EXPECT_EQ(turn->arrival->whole(), 256);
    EXPECT_EQ(restoring_->under_way().size(), 1U) << "what stands before it is not there";
    time_ += 0.25;
    turn->arrival->computed_ahead();
    end_all(0.0);
    EXPECT_EQ(restoring_->counts().restored, 128);
    EXPECT_EQ(restoring_->counts().seconds, 0.5);
    EXPECT_EQ(restoring_->counts().ahead_seconds, 0.25);
}

TEST_F(RestoringAheadTest, AFastDiskReadsAll) {
    computer(1.0);
    disk(0.1);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    EXPECT_EQ(turn->ahead.count(), 0);
    EXPECT_EQ(turn->arrival->begin(), 0);
}

TEST_F(RestoringAheadTest, OfASlowDiskTheLastRoundsAreRead) {
    computer(1.0);
    disk(2.9);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    EXPECT_EQ(turn->ahead.end, 192);
    EXPECT_EQ(restoring_->counts().not_worth, 0);
}

TEST_F(RestoringAheadTest, WhatIsNotExactIsReadAsItIs) {
    even();
    const TurnPtr turn = bare_turn(0);
    turn->space.method = "lines";
    bool done = false;
    restoring_->restore(taken(turn), [&done] { done = true; });
    ASSERT_TRUE(done);
    ASSERT_NE(turn->arrival, nullptr);
    EXPECT_EQ(turn->ahead.count(), 0);
}

/// Whoever comes meanwhile neither reads nor computes it a second time.
TEST_F(RestoringAheadTest, WhoWaitsSharesBothParts) {
    even();
    const TurnPtr turn = ask(0);
    bool answered = false;
    const TurnPtr waits = wait_for(0, answered);
    read_all();
    EXPECT_FALSE(answered) << "the first half is not there";
    turn->arrival->computed_ahead();
    end_all(0.0);
    EXPECT_TRUE(answered);
    EXPECT_EQ(waits->arrival, nullptr);
    EXPECT_EQ(waits->kv.tokens(), tokens);
    EXPECT_EQ(waits->restored_tokens, tokens);
    EXPECT_EQ(waits->ahead.count(), 0);
}

TEST_F(RestoringAheadTest, WhoWaitsSharesWhatIsComputedBeforeTheOtherPartIsRead) {
    even();
    held_.hold(testing::HeldDisk::reads);
    const TurnPtr turn = ask(0);
    bool answered = false;
    const TurnPtr waits = wait_for(0, answered);
    turn->arrival->computed_ahead();
    tasks_->run_all();
    EXPECT_FALSE(answered);
    held_.let_go();
    end_all(0.0);
    EXPECT_TRUE(answered);
    EXPECT_EQ(waits->kv.tokens(), tokens);
}

/// The other one's turn to compute may come late.
TEST_F(RestoringAheadTest, WhoIsMoreUrgentDoesNotWait) {
    even();
    const TurnPtr turn = ask(0), urgent = bare_turn(0);
    urgent->priority = 1;
    bool answered = false;
    restoring_->restore(taken(urgent), [&answered] { answered = true; });
    EXPECT_TRUE(answered);
    EXPECT_EQ(urgent->arrival, nullptr);
    EXPECT_EQ(urgent->kv.tokens(), 0);
    turn->arrival->computed_ahead();
    end_all(0.0);
}

/// Its turn leaves before it has computed the first half. Who waits then does what it did.
TEST_F(RestoringAheadTest, WhoWaitsBeginsAnewWhereTheFirstPartIsNotComputed) {
    for (const bool is_read : {false, true}) {
        SCOPED_TRACE(is_read);
        begin();
        even();
        held_.hold(testing::HeldDisk::reads);
        const TurnPtr turn = ask(0);
        bool answered = false;
        const TurnPtr waits = wait_for(0, answered);
        if (is_read) read_all();
        turn->stop_waiting();
        turn->leave_ahead();
        EXPECT_EQ(turn->kv.tokens(), 0);
        EXPECT_EQ(turn->restored_tokens, 0);
        held_.let_go();
        tasks_->run_until([&answered] { return answered; });
        ASSERT_NE(waits->arrival, nullptr);
        EXPECT_GE(waits->ahead.end, 128) << "the disk may still be at what nobody wants";
        EXPECT_EQ(waits->kv.tokens(), tokens);
        waits->arrival->computed_ahead();
        end_all(0.0);
        EXPECT_EQ(waits->arrival->whole(), 256);
    }
}

/// A stage dies, and the turn with it.
TEST_F(RestoringAheadTest, NothingIsHeldForATurnThatIsGone) {
    for (const bool is_read : {false, true}) {
        SCOPED_TRACE(is_read);
        begin();
        even();
        held_.hold(testing::HeldDisk::reads);
        TurnPtr turn = ask(0);
        if (is_read) read_all();
        turn.reset();
        held_.let_go();
        end_all(0.0);
        EXPECT_EQ(runtime_->pool->blocks_free(LayerGroup::upper), runtime_->pool->blocks_total(LayerGroup::upper));
    }
}

/// What is damaged is computed as well, and what stands before it is of use.
TEST_F(RestoringAheadTest, DamageBehindWhatIsComputedCostsWhatIsDamaged) {
    even();
    store_->index().each([this](const auto& record) {
        if (record.tokens_before == 192)
            testing::flip_bit(options_.path + "/" + Segments::name_of(record.place.segment),
                              record.place.offset + record.place.bytes - disk_alignment);
    });
    int64_t whole_of_damaged = 0;
    for (int prompt = 0; prompt < prompts; ++prompt) {
        const TurnPtr turn = ask(prompt);
        turn->arrival->computed_ahead();
        end_all(0.5);
        const auto whole = turn->arrival->whole();
        ASSERT_TRUE(whole);
        if (*whole < tokens) whole_of_damaged = *whole;
        turn->ahead.begin = turn->ahead.end;
        turn->stop_waiting();
        turn->leave_ahead();
        EXPECT_EQ(turn->kv.tokens(), *whole);
    }
    EXPECT_EQ(whole_of_damaged, 192);
}

class RestoringFromMemoryAheadTest : public RestoringAheadTest {
protected:
    RestoringFromMemoryAheadTest() : RestoringAheadTest(uint64_t{64} << 20) {}
};

TEST_F(RestoringFromMemoryAheadTest, WhatLiesInHostMemoryIsNotComputed) {
    even();
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    EXPECT_EQ(turn->ahead.count(), 0);
}

}  // namespace
}  // namespace rondo
