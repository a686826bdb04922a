#include "actors/decode_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::must;

constexpr int lag_steps = 3;
constexpr size_t blocks = 24;

class DecodeBatchTest : public ::testing::Test {
protected:
    DecodeBatchTest() { runtime_->context_tokens = 256; }

    TurnPtr turn(TurnId id, int priority = 0, int64_t prompt = 8) {
        const std::vector<int32_t> ids(static_cast<size_t>(prompt + 1), 1);
        auto turn = std::make_shared<Turn>(testing::make_bare_turn(runtime_, id, ids, prompt));
        turn->priority = priority;
        EXPECT_TRUE(turn->kv.extend(prompt));
        return turn;
    }
    /// One whose choice of keys has begun with its complete prompt, for steps from the third on.
    TurnPtr choosing(TurnId id) {
        TurnPtr made = turn(id, 0, 40);
        testing::choose_first_key(*made, lag_steps);
        made->end_prompt(*runtime_->devices[0]);
        return made;
    }
    /// A step as its actor and a device do it; by ids, those that took part.
    static std::vector<TurnId> step(DecodeBatch& batch) {
        std::vector<TurnId> ids;
        batch.take_back_choices();
        if (!batch.can_step() || batch.set_places_aside() != BlockCounts{}) return ids;
        std::vector<TurnPtr> turns;
        batch.begin_step(turns);
        for (const TurnPtr& turn : turns) {
            EXPECT_TRUE(turn->kv.extend(1));
            turn->take({1, "", {}, false});
            turn->end_step();
            EXPECT_FALSE(turn->is_over());
            ids.push_back(turn->id);
        }
        return ids;
    }

    RuntimePtr runtime_ = testing::small_runtime(blocks);
};

TEST_F(DecodeBatchTest, StepsInOrderOfJoiningAndNoMoreThanItMay) {
    DecodeBatch batch(2);
    EXPECT_FALSE(batch.can_step());
    for (const TurnId id : {7, 3, 5}) batch.join(turn(id));
    EXPECT_THAT(step(batch), ElementsAre(7, 3));
    EXPECT_TRUE(batch.leave(3, StageReply::Outcome::refused));
    EXPECT_THAT(step(batch), ElementsAre(7, 5));
}

TEST_F(DecodeBatchTest, AWithdrawnTurnIsNamedUntilItLeaves) {
    DecodeBatch batch;
    batch.join(turn(1));
    batch.join(turn(2));
    EXPECT_FALSE(batch.withdraw(3));
    EXPECT_TRUE(batch.withdraw(2));
    EXPECT_TRUE(batch.withdraw(2));
    EXPECT_THAT(batch.withdrawn(), ElementsAre(2));
    const auto left = batch.leave(2, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    ASSERT_TRUE(left);
    EXPECT_EQ(left->turn->id, 2U);
    EXPECT_EQ(left->outcome, StageReply::Outcome::refused);
    EXPECT_EQ(left->error.code, ErrorCode::cancelled);
    EXPECT_THAT(batch.withdrawn(), IsEmpty());
    EXPECT_FALSE(batch.leave(2, StageReply::Outcome::refused)) << "it has left";
    EXPECT_FALSE(batch.withdraw(2));
}

TEST_F(DecodeBatchTest, WhoCameLastOfTheLowestPriorityGivesWay) {
    DecodeBatch batch;
    EXPECT_FALSE(batch.to_preempt());
    batch.join(turn(4, 1));
    batch.join(turn(2, 0));
    batch.join(turn(3, 0));
    batch.join(turn(9, 2));
    for (const TurnId next : {3, 2, 4, 9}) {
        ASSERT_EQ(batch.to_preempt(), next);
        const auto left = batch.leave(next, StageReply::Outcome::preempted);
        ASSERT_TRUE(left);
        EXPECT_EQ(left->turn->preemptions, 1);
    }
    EXPECT_FALSE(batch.can_step());
}

/// It was cancelled while somebody was asked for room, and leaves behind the answer.
TEST_F(DecodeBatchTest, NobodyGivesWayWhileAWithdrawnTurnIsThere) {
    DecodeBatch batch;
    batch.join(turn(1));
    batch.join(turn(2));
    batch.withdraw(1);
    EXPECT_TRUE(batch.is_leaving());
    EXPECT_FALSE(batch.to_preempt());
    EXPECT_TRUE(batch.leave(1, StageReply::Outcome::refused));
    EXPECT_FALSE(batch.is_leaving());
    EXPECT_EQ(batch.to_preempt(), 2U);
}

TEST_F(DecodeBatchTest, CountsThoseThatFindNoPlaceForTheirToken) {
    DecodeBatch batch;
    const auto block = static_cast<int64_t>(kv_block_tokens);
    std::vector<TurnPtr> turns;
    for (TurnId id = 1; id <= 3; ++id) turns.push_back(turn(id, 0, 7 * block));  // 21 of 24 blocks, all full
    const TurnPtr large = turn(4, 0, 2 * block);
    for (const TurnPtr& one : turns) batch.join(one);
    batch.join(large);
    ASSERT_TRUE(batch.can_step());
    EXPECT_EQ(batch.set_places_aside()[LayerGroup::upper], 3) << "one block is left for four";
    EXPECT_EQ(batch.set_places_aside()[LayerGroup::upper], 3) << "whoever has a place keeps it";
    EXPECT_TRUE(batch.leave(4, StageReply::Outcome::preempted));
}

TEST_F(DecodeBatchTest, StepsAreNumbered) {
    DecodeBatch batch;
    const TurnPtr chooses = choosing(1);
    batch.join(turn(2));
    std::vector<TurnPtr> turns;
    EXPECT_EQ(batch.begin_step(turns), 1U);
    EXPECT_EQ(batch.begin_step(turns), 2U);
    batch.join(chooses);
    const ChoiceJobPtr job = batch.begin_choice(1);
    ASSERT_TRUE(job);
    EXPECT_EQ(job->turn, 1U);
    EXPECT_EQ(job->due_step, 2U + lag_steps);
    EXPECT_EQ(job->runtime, runtime_);
}

TEST_F(DecodeBatchTest, ATurnWhoseChoiceIsLateWaitsAloneAndIsCountedOnce) {
    DecodeBatch batch;
    const TurnPtr chooses = choosing(1);
    batch.join(chooses);
    batch.join(turn(2));
    const ChoiceJobPtr job = batch.begin_choice(1);
    ASSERT_TRUE(job);
    EXPECT_FALSE(batch.begin_choice(1)) << "somebody has it";
    EXPECT_FALSE(batch.begin_choice(2)) << "it attends to everything";
    EXPECT_FALSE(batch.begin_choice(3));
    for (int i = 0; i < lag_steps; ++i) EXPECT_THAT(step(batch), ElementsAre(1, 2));
    for (int i = 0; i < 4; ++i) EXPECT_THAT(step(batch), ElementsAre(2));
    EXPECT_EQ(chooses->choices_waited, 1);
    testing::complete(*job->choice);
    EXPECT_FALSE(batch.end_choice(job)) << "it stays";
    EXPECT_THAT(step(batch), ElementsAre(1, 2));
    EXPECT_TRUE(chooses->step_attention->serving());
}

/// A step's turns are the runner's: what comes back meanwhile changes none of them.
TEST_F(DecodeBatchTest, AChoiceThatComesBackDuringAStepWaitsForItsEnd) {
    DecodeBatch batch;
    const TurnPtr chooses = choosing(1);
    batch.join(chooses);
    const ChoiceJobPtr job = batch.begin_choice(1);
    ASSERT_TRUE(job);
    testing::complete(*job->choice);
    std::vector<TurnPtr> turns;
    batch.begin_step(turns);
    EXPECT_FALSE(batch.end_choice(job));
    EXPECT_TRUE(job->choice) << "the turn does not have it yet";
    batch.take_back_choices();
    EXPECT_FALSE(job->choice);
    EXPECT_FALSE(chooses->step_attention->serving()) << "it is not due";
    EXPECT_FALSE(batch.begin_choice(1)) << "nor begun anew";
}

TEST_F(DecodeBatchTest, AChoiceThatIsGivenUpHoldsUpNobody) {
    DecodeBatch batch;
    const TurnPtr chooses = choosing(1);
    batch.join(chooses);
    const ChoiceJobPtr job = batch.begin_choice(1);
    ASSERT_TRUE(job);
    for (int i = 0; i < lag_steps; ++i) step(batch);
    EXPECT_THAT(step(batch), IsEmpty());
    EXPECT_FALSE(batch.end_choice(job)) << "as far as it came";
    EXPECT_THAT(step(batch), ElementsAre(1));
    EXPECT_FALSE(chooses->step_attention->serving());
    EXPECT_EQ(chooses->step_attention->stats().given_up, 1);
}

TEST_F(DecodeBatchTest, ATurnWhoseChoiceIsOutLeavesWhenItIsBack) {
    DecodeBatch batch;
    const TurnPtr chooses = choosing(1);
    batch.join(chooses);
    batch.join(turn(2));
    const ChoiceJobPtr job = batch.begin_choice(1);
    ASSERT_TRUE(job);
    batch.withdraw(1);
    EXPECT_FALSE(batch.leave(1, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn")));
    EXPECT_TRUE(batch.is_leaving());
    EXPECT_THAT(batch.withdrawn(), IsEmpty()) << "it has begun to leave";
    EXPECT_FALSE(batch.to_preempt()) << "somebody gives memory back anyway";
    EXPECT_THAT(step(batch), ElementsAre(2));
    const auto left = batch.end_choice(job);
    ASSERT_TRUE(left);
    EXPECT_EQ(left->turn, chooses);
    EXPECT_EQ(left->outcome, StageReply::Outcome::refused);
    EXPECT_EQ(left->error.code, ErrorCode::cancelled);
    EXPECT_EQ(runtime_->pool->references(LayerGroup::upper, chooses->kv.blocks(LayerGroup::upper)[0]), 1)
        << "the choice holds none of its blocks";
    EXPECT_FALSE(batch.is_leaving());
    EXPECT_FALSE(batch.end_choice(job)) << "the turn is here no more";
}

TEST_F(DecodeBatchTest, APreemptedTurnBeginsItsChoicesAnew) {
    DecodeBatch batch;
    const TurnPtr chooses = choosing(1);
    batch.join(chooses);
    const ChoiceJobPtr job = batch.begin_choice(1);
    ASSERT_TRUE(job);
    testing::complete(*job->choice);
    EXPECT_FALSE(batch.end_choice(job));
    for (int i = 0; i <= lag_steps; ++i) step(batch);
    ASSERT_TRUE(chooses->step_attention->serving());
    const auto left = batch.leave(1, StageReply::Outcome::preempted);
    ASSERT_TRUE(left);
    EXPECT_EQ(left->turn->answer_attention.selections, 1);
    EXPECT_FALSE(chooses->step_attention->serving());
    chooses->end_prompt(*runtime_->devices[0]);
    batch.join(chooses);
    EXPECT_TRUE(batch.begin_choice(1));
}

/// Ten thousand turns come, step and leave in every way there is, each of them once, and never in the midst of a
/// choice.
TEST_F(DecodeBatchTest, EveryTurnLeavesOnceWhateverComes) {
    std::mt19937_64 random(5);
    const auto roll = [&](uint64_t sides) { return random() % sides; };
    DecodeBatch batch(4);
    const std::vector<TurnPtr> kinds = {turn(0), choosing(0)};
    std::set<TurnId> here;
    std::map<TurnId, ChoiceJobPtr> out;
    TurnId came = 0;
    size_t left = 0;
    const auto leaves = [&](std::optional<StageReply> reply) {
        if (!reply) return;
        EXPECT_EQ(here.erase(reply->turn->id), 1U);
        EXPECT_FALSE(out.contains(reply->turn->id));
        ++left;
    };
    while (came < 10'000 || !here.empty()) {
        ASSERT_FALSE(HasFailure());
        if (came < 10'000 && here.size() < 5 && roll(3) == 0) {
            const bool chooses = ++came % 50 == 0;
            const TurnPtr joining = chooses ? choosing(came) : turn(came, static_cast<int>(roll(2)), 1);
            here.insert(came);
            batch.join(joining);
            if (auto job = batch.begin_choice(came)) out[came] = std::move(job);
        }
        if (here.empty()) continue;
        auto one = here.lower_bound(roll(came) + 1);
        if (one == here.end()) one = here.begin();
        const TurnId id = *one;
        switch (roll(5)) {
            case 0:
                batch.withdraw(id);
                for (const TurnId gone : batch.withdrawn()) leaves(batch.leave(gone, StageReply::Outcome::refused));
                break;
            case 1:
                if (const auto victim = batch.to_preempt())
                    leaves(batch.leave(*victim, StageReply::Outcome::preempted));
                break;
            case 2:
                if (out.empty()) break;
                leaves(batch.end_choice(out.extract(out.begin()).mapped()));
                break;
            default: {
                batch.take_back_choices();
                if (!batch.can_step() || batch.set_places_aside() != BlockCounts{}) break;
                std::vector<TurnPtr> turns;
                batch.begin_step(turns);
                EXPECT_LE(turns.size(), 4U);
                for (const TurnPtr& stepping : turns) {
                    EXPECT_TRUE(here.contains(stepping->id));
                    EXPECT_TRUE(stepping->kv.extend(1));
                    stepping->take({1, "", {}, roll(4) == 0});
                    stepping->end_step();
                    if (stepping->is_over()) leaves(batch.leave(stepping->id, StageReply::Outcome::over));
                }
            }
        }
    }
    EXPECT_EQ(left, 10'000U);
    EXPECT_FALSE(batch.can_step());
}

}  // namespace
}  // namespace rondo
