#include <gtest/gtest.h>

#include "actors/gateway/bodies/completion_response.hpp"
#include "tests/actors/api_answers.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

const AnswerHead completion_head{"cmpl-1", 1700000000, "demo", false};

TEST(CompletionResponse, HasTheShapeOfOpenAi) {
    const FinishedAnswer answer{{"Hié x", {0, 1, 2, 5}, {}}, ended(TurnOutcome::length, 4)};
    Json response = Json::parse(completion_response(completion_head, {&answer, 1}, bytes_of_test_token));
    EXPECT_EQ(response["choices"],
              parsed(R"([{"text": "Hié x", "index": 0, "logprobs": null, "finish_reason": "length"}])"));
    EXPECT_EQ(response["object"], "text_completion");
    EXPECT_EQ(response["id"], "cmpl-1");
    EXPECT_EQ(response["usage"]["total_tokens"], 14);
    EXPECT_EQ(response["timings"]["preemptions"], 1);
}

TEST(CompletionResponse, GivesLogprobsInTheirOldShape) {
    const FinishedAnswer answer{
        {"Hié x",
         {0, 1, 2, 5},
         {{{0, -0.5F}, {0, -0.5F}, {5, -1.0F}}, {{1, -1.0F}, {5, -0.5F}}, {{2, 0.0F}}, {{5, -2.0F}}}},
        ended(TurnOutcome::stop, 4)};
    const Json response = Json::parse(completion_response(completion_head, {&answer, 1}, bytes_of_test_token));
    EXPECT_EQ(response["choices"][0]["logprobs"], parsed(R"({
        "tokens": ["Hi", "\ufffd", "\ufffd", " x"], "token_logprobs": [-0.5, -1.0, 0.0, -2.0],
        "top_logprobs": [{"Hi": -0.5, " x": -1.0}, {" x": -0.5, "\ufffd": -1.0}, {"\ufffd": 0.0}, {" x": -2.0}],
        "text_offset": [0, 2, 2, 3]})"));
}

TEST(CompletionResponse, KeepsTheLikelierOfTokensThatLookAlike) {
    const FinishedAnswer answer{{"?", {3}, {{{3, -3.0F}, {1, -1.0F}, {2, -2.0F}}}}, ended(TurnOutcome::stop, 1)};
    const Json response = Json::parse(completion_response(completion_head, {&answer, 1}, bytes_of_test_token));
    EXPECT_EQ(response["choices"][0]["logprobs"]["top_logprobs"], parsed(R"([{"\ufffd": -1.0}])"));
}

TEST(CompletionStream, CountsOffsetsOverItsPieces) {
    CompletionLogprobs logprobs;
    const Json first = event_json(completion_delta_event(
        completion_head, 0, {"Hi", {0, 1}, {{{0, -1.0F}}, {{1, -1.0F}}}}, logprobs, bytes_of_test_token));
    const Json second = event_json(completion_delta_event(
        completion_head, 0, {"é x", {2, 5}, {{{2, -1.0F}}, {{5, -1.0F}}}}, logprobs, bytes_of_test_token));
    EXPECT_EQ(first["choices"][0]["logprobs"]["text_offset"], parsed("[0, 2]"));
    EXPECT_EQ(second["choices"][0]["logprobs"]["text_offset"], parsed("[2, 3]"));
    EXPECT_EQ(second["object"], "text_completion");
    EXPECT_TRUE(second["choices"][0]["finish_reason"].is_null());
    EXPECT_EQ(completion_delta_event(completion_head, 0, {"", {4}, {}}, logprobs, bytes_of_test_token), "");
}

TEST(CompletionStream, EndsWithFinishAndUsage) {
    const TurnEnd end = ended(TurnOutcome::stop, 2);
    const Json finish = event_json(completion_finish_event(completion_head, 1, end));
    EXPECT_EQ(finish["choices"], parsed(R"([{"text": "", "index": 1, "logprobs": null, "finish_reason": "stop"}])"));
    EXPECT_EQ(finish["timings"]["decode_ms"], 1500.0);
    EXPECT_EQ(completion_usage_event(completion_head, end.usage), "");
    const AnswerHead asking{"cmpl-1", 1700000000, "demo", true};
    const Json usage = event_json(completion_usage_event(asking, end.usage));
    EXPECT_EQ(usage["choices"], Json::array());
    EXPECT_EQ(usage["usage"]["completion_tokens"], 2);
    EXPECT_EQ(usage["object"], "text_completion");
}

}  // namespace
}  // namespace rondo
