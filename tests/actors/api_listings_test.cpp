#include <gtest/gtest.h>

#include "actors/gateway/bodies/listings.hpp"
#include "tests/actors/api_answers.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

TEST(Listings, ListModels) {
    const ServedModel model{"demo", 1700000000, 4096, {"loopserve", "dense"}, 1024};
    EXPECT_EQ(Json::parse(models_response({&model, 1})), parsed(R"({"object": "list", "data": [{"id": "demo",
        "object": "model", "created": 1700000000, "owned_by": "rondo", "context_tokens_max": 4096,
        "methods": ["loopserve", "dense"], "budget_tokens_max": 1024}]})"));
}

TEST(Listings, ShowASessionWithItsRounds) {
    const SessionInfo session{"a \"b\"", "Boxes", "Be\nbrief.", 12, {{0, 5, "Hi\n", "Hello"}, {1, 7, "x\xFF", ""}}};
    EXPECT_EQ(Json::parse(session_response(session)), parsed(R"({"id": "a \"b\"", "object": "session", "title": "Boxes",
        "system": "Be\nbrief.", "tokens": 12, "rounds": [{"index": 0, "tokens": 5, "user": "Hi\n", "assistant": "Hello"},
                   {"index": 1, "tokens": 7, "user": "x\ufffd", "assistant": ""}]})"));
    const std::vector<ListedSession> listed{{"a \"b\"", "Boxes", 12, 2}, {"c", "", 0, 0}};
    EXPECT_EQ(Json::parse(sessions_response(listed, true)), parsed(R"({"object": "list", "data": [
        {"id": "a \"b\"", "object": "session", "title": "Boxes", "tokens": 12, "round_count": 2},
        {"id": "c", "object": "session", "title": "", "tokens": 0, "round_count": 0}],
        "first_id": "a \"b\"", "last_id": "c", "has_more": true})"));
    EXPECT_EQ(Json::parse(sessions_response({}, false)),
              parsed(R"({"object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false})"));
    EXPECT_EQ(Json::parse(session_deleted_response("a")),
              parsed(R"({"id": "a", "object": "session", "deleted": true})"));
}

TEST(Listings, ShowWhatEachRoundCost) {
    TurnFigures figures;
    figures.outcome = TurnOutcome::length;
    figures.usage = {.prompt_tokens = 9, .completion_tokens = 3, .cached_tokens = 5, .recomputed_tokens = 4};
    figures.timings.first_token = 0.0125;
    figures.attention.method = "snapkv";
    figures.attention.selections = 2;
    const SessionInfo session{"a", "", "", 12, {{0, 12, "Hi", "Hello", figures}}};
    const Json round = Json::parse(session_response(session))["rounds"][0];
    EXPECT_EQ(round["finish_reason"], "length");
    EXPECT_EQ(round["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    EXPECT_EQ(round["timings"]["first_token_ms"], 12.5);
    EXPECT_EQ(round["attention"]["selections"], 2);
}

TEST(Listings, ShowIdsAndText) {
    const std::vector<int32_t> ids = {3, 1, 2};
    EXPECT_EQ(Json::parse(tokenize_response(ids)), parsed(R"({"ids": [3, 1, 2], "count": 3})"));
    EXPECT_EQ(Json::parse(tokenize_response({})), parsed(R"({"ids": [], "count": 0})"));
    EXPECT_EQ(Json::parse(detokenize_response("a\xC3")), parsed(R"({"text": "a\ufffd"})"));
}

}  // namespace
}  // namespace rondo
