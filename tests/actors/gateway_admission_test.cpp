// Who is let in: answers that belong together, and conversations that ought to be there.

#include "tests/actors/gateway_fixture.hpp"

namespace rondo::testing {
namespace {

class GatewayAdmission : public GatewayFixture {};

/// The fixture has room for three turns.
TEST_F(GatewayAdmission, TakesAllAnswersOfARequestOrNone) {
    json body = chat("What is the code of the red box?");
    body["n"] = 4;
    for (const bool stream : {false, true}) {
        body["stream"] = stream;
        const HttpResponse refused = call("POST", "/v1/chat/completions", body);
        EXPECT_EQ(refused.status, 400) << refused.body;
        EXPECT_THAT(refused.body, ::testing::HasSubstr("must be at most 3 here"));
    }
    body["n"] = 3;
    body["stream"] = false;
    EXPECT_EQ(answer(body)["choices"].size(), 3U);
    EXPECT_EQ(inside(*engine).load().places_held, 0U);
}

TEST_F(GatewayAdmission, DoesNotBeginAConversationThatShouldGoOn) {
    json body = chat("The code of the red box is 4817.", "lost");
    body["continue"] = true;
    const HttpResponse refused = call("POST", "/v1/chat/completions", body);
    EXPECT_EQ(refused.status, 404);
    EXPECT_THAT(refused.body, ::testing::HasSubstr("no conversation of that id is kept"));
    body.erase("continue");
    answer(body);
    body["continue"] = true;
    answer(body);
    EXPECT_EQ(json::parse(call("GET", "/v1/sessions/lost").body)["rounds"].size(), 2U);
    EXPECT_EQ(call("DELETE", "/v1/sessions/lost").status, 200);
}

TEST_F(GatewayAdmission, WantsAConversationToGoOnWith) {
    json body = chat("Hello");
    body["continue"] = true;
    const HttpResponse refused = call("POST", "/v1/chat/completions", body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(refused.body, ::testing::HasSubstr("continue"));
}

}  // namespace
}  // namespace rondo::testing
