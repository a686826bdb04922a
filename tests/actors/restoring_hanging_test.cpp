// A disk that hangs while it reads what is stored of prompts, by a clock that the test moves.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/actors/restoring_fixture.hpp"

namespace rondo {
namespace {

using testing::HeldDisk;
using testing::RestoringTest;

TEST_F(RestoringTest, NobodyQueuesForADiskThatHangs) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    time_ += 1.5;
    EXPECT_FALSE(is_read(1));
    end_all(0.0);
}

/// Nobody reads from it, whatever is to be computed before; who waits for what it does not bring is let go.
TEST_F(RestoringTest, WhatHangsIsAskedForByNobody) {
    computer(1.0);
    disk(0.5);
    const TurnPtr reads = ask(0);
    ASSERT_NE(reads->arrival, nullptr);
    const TurnPtr waits = bare_turn(0);
    const TurnOfferPtr offer = taken(waits);
    bool waited = false;
    restoring_->restore(offer, [&waited] { waited = true; });
    EXPECT_EQ(offer->patience(), Restoring::patience_min_s);
    time_ += 6.0;
    const std::vector<int32_t> written_to(reads->kv.blocks(LayerGroup::upper).begin(),
                                          reads->kv.blocks(LayerGroup::upper).end());
    reads->arrival->give_up(Arrival::Why::hangs);
    reads->stop_waiting();
    ASSERT_TRUE(reads->kv.extend(tokens));
    for (const int32_t block : reads->kv.blocks(LayerGroup::upper))
        EXPECT_EQ(std::ranges::count(written_to, block), 0) << "the disk may still write there";
    prompt_tokens_ = 1000 * tokens;
    tasks_->run_until([&waited] { return waited; });
    EXPECT_EQ(offer->turn(), waits);
    EXPECT_FALSE(offer->was_taken_back());
    EXPECT_EQ(waits->kv.tokens(), 0);
    EXPECT_EQ(restoring_->counts().failed, tokens);
    if (!restoring_->under_way().empty()) {
        EXPECT_FALSE(is_read(1));
    }
    end_all(0.0);
    EXPECT_EQ(restoring_->counts().failed, tokens);
    EXPECT_EQ(restoring_->counts().restored, 0);
    EXPECT_TRUE(is_read(1)) << "it has gone on";
    end_all(0.0);
    prompt_tokens_ = 0;
    EXPECT_FALSE(is_read(2)) << "that it was slow is known";
}

TEST_F(RestoringTest, ADiskIsGivenTheTimeThatComputingTakes) {
    for (const double computing : {1.0, 20.0, 1e300}) {
        begin();
        computer(computing);
        const TurnPtr turn = ask(0);
        ASSERT_NE(turn->arrival, nullptr);
        EXPECT_DOUBLE_EQ(turn->arrival->patience(),
                         std::clamp(computing, Restoring::patience_min_s, Restoring::patience_max_s));
        end_all(0.0);
    }
}

class CrowdedRestoringTest : public RestoringTest {
protected:
    CrowdedRestoringTest() : RestoringTest(40) {}
};

/// Each could be let in with other blocks alone. Both would hold all there are, and the first would keep everybody out.
TEST_F(CrowdedRestoringTest, WhoTakesTheOtherBlocksLeavesNobodyAny) {
    TurnPtr first = ask(0);
    EXPECT_EQ(first->arrival->patience(), Restoring::patience_min_s);
    const TurnPtr second = ask(1);
    EXPECT_EQ(first->arrival->patience(), Arrival::for_ever);
    EXPECT_EQ(second->arrival->patience(), Arrival::for_ever);
    end_all(0.0);
    first.reset();
    const TurnPtr third = ask(2);
    ASSERT_NE(third->arrival, nullptr);
    EXPECT_EQ(third->arrival->patience(), Restoring::patience_min_s);
    end_all(0.0);
}

/// 16 blocks of each are written to, and 17 are wanted anew: for three of them 99.
class RoomyRestoringTest : public RestoringTest {
protected:
    RoomyRestoringTest() : RestoringTest(99) {}
};

TEST_F(RoomyRestoringTest, WhoHasOtherBlocksKeepsThem) {
    const std::vector<TurnPtr> turns{ask(0), ask(1), ask(2)};
    for (const TurnPtr& turn : turns) EXPECT_EQ(turn->arrival->patience(), Restoring::patience_min_s);
    const TurnPtr last = ask(3);
    EXPECT_EQ(last->arrival->patience(), Arrival::for_ever);
    for (const TurnPtr& turn : turns) EXPECT_EQ(turn->arrival->patience(), Arrival::for_ever);
    end_all(0.0);
}

/// The disk still writes to the blocks of two turns that have left, and these need no others any more.
TEST_F(RoomyRestoringTest, WhoHasLeftTakesNobodysOtherBlocks) {
    held_.hold(HeldDisk::reads);
    const std::vector<TurnPtr> turns{ask(0), ask(1), ask(2)};
    turns[0]->stop_waiting();
    turns[1]->stop_waiting();
    tasks_->run_all();
    ASSERT_EQ(restoring_->under_way().size(), 3U);
    EXPECT_EQ(ask(3)->arrival->patience(), Restoring::patience_min_s);
    EXPECT_EQ(turns[2]->arrival->patience(), Restoring::patience_min_s);
}

/// Its turn has left, so nobody else looks whether something comes.
TEST_F(RestoringTest, WhoAsksForWhatHangsComputes) {
    computer(1.0);
    const TurnPtr reads = ask(0), waits = bare_turn(0);
    ASSERT_NE(reads->arrival, nullptr);
    const TurnOfferPtr offer = taken(waits);
    restoring_->restore(offer, [] {});
    reads->stop_waiting();
    time_ += Restoring::patience_min_s + 1.0;
    EXPECT_EQ(offer->take_back(), waits);
    prompt_tokens_ = 1000 * tokens;
    EXPECT_FALSE(is_read(0)) << "and does not wait";
    EXPECT_FALSE(is_read(1));
    end_all(0.0);
    EXPECT_TRUE(is_read(1));
}

TEST_F(RestoringTest, ADiskHangsThoughNobodyWaitsForIt) {
    computer(1.0);
    const TurnPtr reads = ask(0);
    ASSERT_NE(reads->arrival, nullptr);
    reads->stop_waiting();
    time_ += Restoring::patience_min_s + 1.0;
    prompt_tokens_ = 1000 * tokens;
    EXPECT_FALSE(is_read(1));
    end_all(0.0);
    EXPECT_TRUE(is_read(1));
}

class HostMemoryRestoringTest : public RestoringTest {
protected:
    HostMemoryRestoringTest() : RestoringTest(512, uint64_t{64} << 20) {}
};

/// What comes from host memory meanwhile says nothing of the disk.
TEST_F(HostMemoryRestoringTest, ADiskHangsWhileHostMemoryGivesWhatItHas) {
    store_->index().each([this](const auto& record) {
        if (record.place == of_the_first_) arena_->drop(record.name);
    });
    held_.hold(HeldDisk::reads);
    computer(1.0);
    ASSERT_TRUE(is_read(0));
    time_ += Restoring::patience_min_s - 1.0;
    const TurnPtr beside = ask(1);
    ASSERT_NE(beside->arrival, nullptr);
    tasks_->run_until([&beside] { return beside->arrival->whole().has_value(); });
    EXPECT_GT(held_.held(), 0U);
    EXPECT_EQ(beside->arrival->whole(), tokens);
    time_ += 2.0;
    EXPECT_FALSE(is_read(0)) << "nor is it waited for";
}

/// It was cancelled while the store was looking at it: it leaves now, however long the reading takes.
TEST_F(RestoringTest, WhoIsCalledOffWaitsForNobody) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    const TurnPtr turn = bare_turn(0);
    const TurnOfferPtr offer = taken(turn);
    EXPECT_EQ(offer->call_off(), nullptr);
    int over = 0;
    restoring_->restore(offer, [&over] { ++over; });
    EXPECT_EQ(over, 1);
    EXPECT_FALSE(offer->was_taken_back());
    EXPECT_EQ(offer->turn(), turn);
    end_all(0.5);
    EXPECT_EQ(over, 1);
    EXPECT_EQ(turn->kv.tokens(), 0);
}

/// The store hears of it, and answers before the reading is over. Others wait on.
TEST_F(RestoringTest, WhoIsTakenBackIsLetGo) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    const TurnPtr goes = bare_turn(0), waits = bare_turn(0);
    const TurnOfferPtr offers[] = {taken(goes), taken(waits)};
    int over[] = {0, 0};
    for (size_t i = 0; i < 2; ++i) restoring_->restore(offers[i], [&over, i] { ++over[i]; });
    EXPECT_EQ(offers[0]->take_back(), goes);
    restoring_->let_go_of_taken_back();
    EXPECT_EQ(over[0], 1);
    EXPECT_EQ(over[1], 0);
    end_all(0.5);
    EXPECT_EQ(over[0], 1);
    EXPECT_EQ(over[1], 1);
    EXPECT_EQ(waits->kv.tokens(), tokens);
}

/// It is computed by itself. Nobody touches it when the reading is over.
TEST_F(RestoringTest, WhoIsTakenBackWaitsForNobody) {
    computer(1.0);
    EXPECT_TRUE(is_read(0));
    const TurnPtr waits = bare_turn(0);
    const TurnOfferPtr offer = taken(waits);
    int over = 0;
    restoring_->restore(offer, [&over] { ++over; });
    EXPECT_EQ(offer->take_back(), waits);
    end_all(0.5);
    EXPECT_EQ(over, 1);
    EXPECT_TRUE(offer->was_taken_back());
    EXPECT_EQ(waits->kv.tokens(), 0);
    EXPECT_EQ(waits->restored_tokens, 0);
}

}  // namespace
}  // namespace rondo
