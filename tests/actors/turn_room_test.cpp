// Whom the router lets in, and what it tells whoever must wait.

#include "actors/turn_room.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace rondo {
namespace {

class TurnRoomTest : public ::testing::Test {
protected:
    static constexpr double now = 14.0, latest_s = 600.0;

    void take(TurnRoom& room, const Tenant& tenant, int turns) {
        for (int i = 0; i < turns; ++i) room.take(tenant);
    }
    /// Two turns of somebody who has left have ended, four seconds apart.
    void learn_pace(TurnRoom& room) {
        take(room, "left", 2);
        room.end("left", now - 4.0);
        room.end("left", now);
    }
    /// As long as the result lives, all but one of so many places are held.
    std::shared_ptr<Places> hold(TurnRoom& room, const Tenant& tenant, size_t turns) {
        auto places = std::make_shared<Places>(turns);
        places->hold(load_, now + latest_s);
        room.hold(tenant, places);
        return places;
    }

    const std::shared_ptr<Load> load_ = std::make_shared<Load>();
};

TEST_F(TurnRoomTest, IsThereUntilAllPlacesAreTaken) {
    TurnRoom room(3, false);
    EXPECT_TRUE(room.find("", 1, 2, now, latest_s));
    EXPECT_TRUE(room.find("", 3, 0, now, latest_s)) << "several are let in together";
    EXPECT_FALSE(room.find("", 3, 1, now, latest_s)) << "or not at all";
    take(room, "", 3);
    const Status refused = room.find("", 1, 3, now, latest_s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::overloaded);
    EXPECT_EQ(refused.error().message, "3 turns are under way or waiting, 3 of them this tenant's; ask later");
    EXPECT_EQ(refused.error().retry_after_s, 1.0) << "no turn has ended yet";
    room.end("", now);
    EXPECT_TRUE(room.find("", 1, 2, now, latest_s));
}

TEST_F(TurnRoomTest, ForMoreTurnsThanThereArePlacesNobodyNeedAskAgain) {
    const TurnRoom room(3, false);
    const Status refused = room.find("", 4, 0, now, latest_s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
    EXPECT_EQ(refused.error().message, "4 answers, must be at most 3 here");
    EXPECT_EQ(refused.error().retry_after_s, 0.0);
}

TEST_F(TurnRoomTest, IsSharedByTenantsWithWhatTheyHold) {
    TurnRoom room(10, true);
    take(room, "ann", 4);
    const std::shared_ptr<Places> held = hold(room, "ann", 5);
    const Status refused = room.find("ann", 1, 8, now, latest_s);
    ASSERT_FALSE(refused) << "four fifths are hers";
    EXPECT_EQ(refused.error().message, "8 turns are under way or waiting, 8 of them this tenant's; ask later");
    EXPECT_TRUE(room.find("bob", 2, 8, now, latest_s));
}

TEST_F(TurnRoomTest, WhatNobodyHoldsAnyMoreIsNobodys) {
    TurnRoom room(10, true);
    std::shared_ptr<Places> held = hold(room, "ann", 9);
    EXPECT_FALSE(room.find("ann", 1, 8, now, latest_s));
    held.reset();
    EXPECT_TRUE(room.find("ann", 1, 8, now, latest_s)) << "others have taken those";
}

TEST_F(TurnRoomTest, WhoHasMostOfItWaitsForHisOwnTurns) {
    TurnRoom room(10, true);
    learn_pace(room);
    take(room, "ann", 8);
    take(room, "bob", 2);
    EXPECT_EQ(room.find("ann", 1, 10, now, latest_s).error().retry_after_s, 5.0) << "eight of ten ends are hers";
    EXPECT_EQ(room.find("bob", 1, 10, now, latest_s).error().retry_after_s, 20.0) << "two of ten are his";
    EXPECT_EQ(room.find("bob", 3, 10, now, latest_s).error().retry_after_s, 60.0);
    EXPECT_EQ(room.find("bob", 3, 10, now, 30.0).error().retry_after_s, 30.0) << "all must be over by then";
    EXPECT_EQ(room.find("cat", 1, 10, now, latest_s).error().retry_after_s, 4.0) << "who has none takes any";
    EXPECT_EQ(room.find("cat", 2, 10, now, latest_s).error().retry_after_s, 8.0);
}

TEST_F(TurnRoomTest, TellsWhenATenantsOwnTurnEnds) {
    TurnRoom room(10, true);
    learn_pace(room);
    take(room, "ann", 3);
    take(room, "bob", 3);
    EXPECT_EQ(room.own_end_s("ann", 6, now, latest_s), 8.0);
    EXPECT_EQ(room.own_end_s("cat", 6, now, latest_s), 24.0) << "as if one were hers";
    EXPECT_EQ(room.own_end_s("cat", 6, now, 7.0), 7.0);
    EXPECT_EQ(room.own_end_s("cat", 0, now, latest_s), 1.0);
}

}  // namespace
}  // namespace rondo
