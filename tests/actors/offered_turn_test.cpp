// How long a session leaves its turn to the store, and who has it meanwhile.

#include "actors/offered_turn.hpp"

#include <gtest/gtest.h>

#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

class OfferedTurnTest : public ::testing::Test {
protected:
    TurnPtr turn(int tokens = 40) {
        return std::make_shared<Turn>(
            testing::make_bare_turn(runtime_, 1, std::vector<int32_t>(static_cast<size_t>(tokens), 1), tokens));
    }

    const RuntimePtr runtime_ = testing::small_runtime(4);
    OfferedTurn offered_;
};

TEST_F(OfferedTurnTest, IsWorthABlockAtLeastAndOneAtATime) {
    EXPECT_FALSE(offered_.may_be(*turn(kv_block_tokens))) << "the last id is computed in any case";
    EXPECT_TRUE(offered_.may_be(*turn(kv_block_tokens + 1)));
    const TurnPtr in_vain = turn();
    in_vain->waited_in_vain = true;
    EXPECT_FALSE(offered_.may_be(*in_vain));
    offered_.offer(turn(), 1);
    EXPECT_FALSE(offered_.may_be(*turn()));
    EXPECT_TRUE(offered_.look(1).turn);
    EXPECT_FALSE(offered_.may_be(*turn())) << "the store has not answered yet";
    EXPECT_EQ(offered_.answered(), nullptr) << "the session has it";
    EXPECT_TRUE(offered_.may_be(*turn()));
}

TEST_F(OfferedTurnTest, ComesBackFromAStoreThatDoesNotTakeIt) {
    const TurnPtr one = turn();
    const TurnOfferPtr offer = offered_.offer(one, 7);
    EXPECT_FALSE(offered_.look(6).turn) << "of another question";
    const OfferedTurn::Look look = offered_.look(7);
    EXPECT_EQ(look.turn, one);
    EXPECT_EQ(look.again_in_s, 0.0);
    EXPECT_FALSE(offer->take());
    EXPECT_FALSE(offered_.look(7).turn) << "once";
    EXPECT_EQ(offered_.look(7).again_in_s, 0.0);
}

TEST_F(OfferedTurnTest, IsLeftToAStoreThatHasItAsLongAsThatSays) {
    const TurnPtr one = turn();
    const TurnOfferPtr offer = offered_.offer(one, 1);
    ASSERT_TRUE(offer->take());
    for (int i = 0; i < 3; ++i) {
        const OfferedTurn::Look look = offered_.look(1);
        EXPECT_FALSE(look.turn);
        EXPECT_EQ(look.again_in_s, OfferedTurn::taken_within_s);
    }
    ASSERT_TRUE(offer->wait(30.0));
    EXPECT_EQ(offered_.look(1).again_in_s, 30.0);
    EXPECT_EQ(offered_.look(1).turn, one) << "what it waits for has not come";
}

/// It may be cancelled at any moment; afterwards the session looks no more.
TEST_F(OfferedTurnTest, IsCalledOff) {
    EXPECT_EQ(offered_.call_off(), nullptr) << "there is none";
    const TurnPtr one = turn();
    offered_.offer(one, 1);
    EXPECT_EQ(offered_.call_off(), one);
    EXPECT_EQ(offered_.answered(), nullptr);

    const TurnOfferPtr offer = offered_.offer(one, 2);
    ASSERT_TRUE(offer->take());
    EXPECT_EQ(offered_.call_off(), nullptr) << "it is on its way back";
    EXPECT_FALSE(offer->wait(600.0));
    const OfferedTurn::Look look = offered_.look(2);
    EXPECT_FALSE(look.turn);
    EXPECT_EQ(look.again_in_s, 0.0);
    EXPECT_EQ(offered_.answered(), one);
}

/// The store has died, wherever the turn was.
TEST_F(OfferedTurnTest, IsThereWhenThereWillBeNoAnswer) {
    const TurnPtr one = turn();
    offered_.offer(one, 1);
    EXPECT_EQ(offered_.answered(), one);
    const TurnOfferPtr offer = offered_.offer(one, 2);
    ASSERT_TRUE(offer->take());
    ASSERT_TRUE(offer->wait(5.0));
    EXPECT_EQ(offered_.answered(), one);
    EXPECT_FALSE(offered_.look(2).turn);
}

}  // namespace
}  // namespace rondo
