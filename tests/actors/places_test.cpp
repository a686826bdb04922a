// Several turns of one request are let in together or not at all.

#include "actors/places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::Busy;
using testing::chat;
using testing::Heard;
using testing::question;
using testing::small_settings;
using testing::Stage;

class PlacesOfARequest : public ::testing::Test {
protected:
    // Room for three turns.
    Stage stage{small_settings({"pipeline.decode.batch_max=1", "server.requests_waiting_max=2"})};
    std::shared_ptr<Places> places = std::make_shared<Places>(3);

    Ask one_of_them() const {
        Ask ask = chat("", question);
        ask.places = places;
        return ask;
    }
    bool refused(Ask ask) {
        Heard heard;
        stage.engine().ask(std::move(ask), heard.callbacks());
        stage.run();
        EXPECT_EQ(heard.ends.size(), 1U);
        return heard.ends[0].error.code == ErrorCode::overloaded;
    }
};

TEST_F(PlacesOfARequest, AreKeptForThoseThatFollow) {
    EXPECT_FALSE(refused(one_of_them()));
    EXPECT_EQ(stage.inside().load().places_held, 2U);
    Heard other;
    stage.engine().ask(chat("", question), other.callbacks());  // the third
    while (stage.inside().load().turns == 0) ASSERT_TRUE(stage.run_one());
    EXPECT_TRUE(refused(chat("", question)));
    EXPECT_FALSE(refused(one_of_them()));
    EXPECT_FALSE(refused(one_of_them()));
    EXPECT_EQ(stage.inside().load().places_held, 0U);
}

TEST_F(PlacesOfARequest, GoBackWithWhoeverHeldThem) {
    EXPECT_FALSE(refused(one_of_them()));
    EXPECT_FALSE(refused(one_of_them()));
    EXPECT_EQ(stage.inside().load().places_held, 1U);
    places.reset();
    EXPECT_EQ(stage.inside().load().places_held, 0U);
}

TEST_F(PlacesOfARequest, AreAllThereOrNone) {
    Heard other;
    stage.engine().ask(chat("", question), other.callbacks());
    while (stage.inside().load().turns == 0) ASSERT_TRUE(stage.run_one());
    EXPECT_TRUE(refused(one_of_them()));
    EXPECT_EQ(stage.inside().load().places_held, 0U);
    ASSERT_EQ(other.ends.size(), 1U);
    EXPECT_FALSE(refused(one_of_them()));
}

/// The second turn begins late, and has what is left of the first one's time.
TEST_F(PlacesOfARequest, HaveOneDeadline) {
    Ask first = one_of_them(), second = one_of_them();
    first.deadline_seconds = second.deadline_seconds = 10.0;
    EXPECT_FALSE(refused(std::move(first)));
    stage.pass(std::chrono::seconds(6));
    Busy busy(stage);
    Heard heard;
    stage.engine().ask(std::move(second), heard.callbacks());
    busy.run();
    busy.pass(std::chrono::seconds(3));
    EXPECT_EQ(heard.ends.size(), 0U);
    busy.pass(std::chrono::seconds(2));
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ends[0].error.code, ErrorCode::timeout) << heard.ends[0].error.message;
    stage.run();
}

/// Three requests of one tenant, for all the places there are: what they hold for turns to come is his.
TEST(PlacesOfTenants, LeaveRoomForOthers) {
    Stage stage(small_settings({"pipeline.decode.batch_max=1", "server.requests_waiting_max=9",
                                "server.api_keys_file=keys"}));  // room for ten turns
    const auto is_let_in = [&stage](const Tenant& tenant, const std::shared_ptr<Places>& places) {
        Heard heard;
        Ask ask = chat("", question, 1);
        ask.conversation.tenant = tenant;
        ask.places = places;
        stage.engine().ask(std::move(ask), heard.callbacks());
        stage.run();
        EXPECT_EQ(heard.ends.size(), 1U);
        return heard.ends.at(0).error.code != ErrorCode::overloaded;
    };
    auto first = std::make_shared<Places>(5);
    const auto second = std::make_shared<Places>(4), third = std::make_shared<Places>(3);
    EXPECT_TRUE(is_let_in("many", first));
    EXPECT_TRUE(is_let_in("many", second));
    ASSERT_EQ(stage.inside().load().places_held, 7U);
    EXPECT_FALSE(is_let_in("many", third)) << "no turn of his is under way, but seven places are his";
    EXPECT_TRUE(is_let_in("one", std::make_shared<Places>(3)));
    EXPECT_TRUE(is_let_in("many", first)) << "a place that is held for it is there";
    first.reset();
    EXPECT_EQ(stage.inside().load().places_held, 3U);
    EXPECT_TRUE(is_let_in("many", third)) << "what nobody holds any more is nobody's";
}

}  // namespace
}  // namespace rondo
