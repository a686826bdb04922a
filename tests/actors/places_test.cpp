// Several turns of one request are let in together or not at all.

#include "actors/places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

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

}  // namespace
}  // namespace rondo
