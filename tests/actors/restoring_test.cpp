// What is stored of a prompt is read where that is sooner than computing it, by a clock that the test moves.

#include <gtest/gtest.h>

#include <string>

#include "tests/actors/restoring_fixture.hpp"
#include "tests/flip_bit.hpp"

namespace rondo {
namespace {

using testing::RestoringTest;

TEST_F(RestoringTest, ReadsFromAFastDisk) {
    computer(1.0);
    disk(0.5);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    end_all(0.5);
    EXPECT_EQ(turn->arrival->whole(), tokens);
    EXPECT_EQ(restoring_->counts().found, tokens);
    EXPECT_EQ(restoring_->counts().restored, tokens);
    EXPECT_EQ(restoring_->counts().not_worth, 0);
    EXPECT_EQ(restoring_->counts().seconds, 0.5);
}

TEST_F(RestoringTest, ComputesWhatASlowDiskHas) {
    computer(1.0);
    disk(2.0);
    EXPECT_FALSE(is_read(0));
    EXPECT_TRUE(restoring_->under_way().empty());
    EXPECT_EQ(restoring_->counts().found, tokens);
    EXPECT_EQ(restoring_->counts().not_worth, tokens);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_EQ(restoring_->counts_of(space_.tenant).not_worth, tokens);
}

TEST_F(RestoringTest, TheFirstRestoreMeasuresADiskThatNobodyHasProbed) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    end_all(2.0);
    EXPECT_FALSE(is_read(1));
}

TEST_F(RestoringTest, RestoresCorrectWhatAProbeHasMeasured) {
    computer(1.0);
    disk(0.5);
    EXPECT_TRUE(is_read(0));
    end_all(1.5);
    EXPECT_TRUE(is_read(1)) << "one slow restore may be a chance";
    end_all(5.0);
    EXPECT_FALSE(is_read(2));
}

TEST_F(RestoringTest, BeforeAnyTurnAComputerIsAsFastAsWhenTheRecordsWereWritten) {
    disk(0.9);
    EXPECT_TRUE(is_read(0));
    end_all(0.9);
    begin();
    disk(1.1);
    EXPECT_FALSE(is_read(1));
    computer(1.2);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, CountsWhatIsReadAlready) {
    computer(static_cast<double>(bytes_in_all() + bytes_ / 2) / static_cast<double>(bytes_in_all()));
    disk(1.0);
    EXPECT_TRUE(is_read(0));
    EXPECT_FALSE(is_read(1));
    end_all(1.0);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, CountsWhatTheDiskHasToWrite) {
    computer(1.5);
    disk(1.0);
    bytes_to_write_ = bytes_in_all();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(is_read(0)) << "the disk is no faster because it is busy";
    bytes_to_write_ = 0;
    EXPECT_TRUE(is_read(0));
}

/// The restore takes twice as long as reading alone, for the disk writes as much before.
TEST_F(RestoringTest, ADiskIsNoSlowerForWhatItHadToWrite) {
    computer(1.5);
    bytes_to_write_ = bytes_in_all();
    EXPECT_TRUE(is_read(0));
    end_all(2.0);
    bytes_to_write_ = 0;
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, CountsWhatIsToBeComputedBefore) {
    computer(0.5);
    disk(1.0);
    EXPECT_FALSE(is_read(0));
    prompt_tokens_ = 2 * tokens;
    EXPECT_TRUE(is_read(0));
}

/// Two are asked for at once, and each takes the disk one second.
TEST_F(RestoringTest, WhatIsReadBehindAnotherIsMeasuredFromTheOthersEnd) {
    computer(1.1);
    EXPECT_TRUE(is_read(0));
    EXPECT_TRUE(is_read(1));
    time_ += 1.0;
    tasks_->run_until([this] { return restoring_->under_way().size() == 1; });
    end_all(1.0);
    EXPECT_TRUE(is_read(2));
}

/// Two turns of a method whose prompts are dense want the same keys. One of them waits for what the other one reads.
TEST_F(RestoringTest, WhoWaitedComputesAsExactlyAsBefore) {
    const auto asks = [this](int64_t prompt_tokens) {
        const TurnPtr turn = bare_turn(0);
        turn->space.method = "method";
        turn->kv.go_on_inexactly(prompt_tokens);
        restoring_->restore(taken(turn), [] {});
        return turn;
    };
    computer(1.0);
    const TurnPtr reads = asks(tokens + 1), waits = asks(tokens + 40);
    ASSERT_NE(reads->arrival, nullptr);
    ASSERT_EQ(waits->arrival, nullptr);
    end_all(0.5);
    ASSERT_EQ(waits->kv.tokens(), tokens);
    ASSERT_TRUE(waits->kv.extend(50));
    EXPECT_EQ(waits->kv.exact_tokens(), tokens + 40);
}

TEST_F(RestoringTest, NothingIsLearnedFromACancelledRestore) {
    computer(1.5);
    disk(1.0);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    turn->stop_waiting();
    end_all(1000.0);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_EQ(restoring_->counts().failed, 0) << "nobody wanted it";
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, NothingIsLearnedFromADamagedRecord) {
    testing::flip_bit(options_.path + "/" + Segments::name_of(of_the_first_.segment),
                      of_the_first_.offset + of_the_first_.bytes - disk_alignment);
    computer(1.5);
    disk(1.0);
    const TurnPtr turn = ask(0);
    ASSERT_NE(turn->arrival, nullptr);
    end_all(1000.0);
    EXPECT_EQ(turn->arrival->whole(), 0);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_EQ(restoring_->counts().failed, tokens);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, ASlowDiskIsTriedAgain) {
    computer(1.0);
    disk(8.0);
    int computed = 0;
    while (computed < 1000 && !is_read(0)) ++computed;
    EXPECT_GT(computed, 10);
    EXPECT_LT(computed, 100);
    EXPECT_EQ(restoring_->counts().not_worth, computed * tokens);
    end_all(0.1);
    EXPECT_TRUE(is_read(1)) << "it has become fast";
}

}  // namespace
}  // namespace rondo
