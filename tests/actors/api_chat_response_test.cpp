#include <gtest/gtest.h>

#include "actors/gateway/bodies/chat_response.hpp"
#include "actors/gateway/bodies/event_stream.hpp"
#include "tests/actors/api_answers.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

const AnswerHead chat_head{"chatcmpl-1", 1700000000, "demo", false};
const AnswerHead head_with_usage{"chatcmpl-1", 1700000000, "demo", true};

TEST(ChatResponse, HasTheShapeOfOpenAi) {
    const std::vector<FinishedAnswer> answers = {{{"Hé\n", {0, 1, 2}, {}}, ended(TurnOutcome::stop, 3)}};
    EXPECT_EQ(Json::parse(chat_response(chat_head, answers, bytes_of_test_token)), parsed(R"({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "demo",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hé\n"}, "logprobs": null,
                     "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13,
                  "prompt_tokens_details": {"cached_tokens": 4, "restored_tokens": 3, "recomputed_tokens": 3}},
        "timings": {"queued_ms": 1.0, "restore_ms": 2.0, "prefill_ms": 250.0, "decode_ms": 1500.0,
                    "first_token_ms": 253.123, "preemptions": 1},
        "attention": {"method": "loopserve", "prompt_density": 0.25, "prompt_mass": 0.75, "answer_density": 0.125,
                      "selections": 3, "lag_steps": 1}})"));
}

TEST(ChatResponse, CountsThePromptOfSeveralAnswersOnce) {
    std::vector<FinishedAnswer> answers = {{{"a", {}, {}}, ended(TurnOutcome::stop, 3)},
                                           {{"b", {}, {}}, ended(TurnOutcome::length, 5)}};
    answers[1].end.usage.cached_tokens = 10;
    answers[1].end.timings.decode = 2.0;
    const Json response = Json::parse(chat_response(chat_head, answers, bytes_of_test_token));
    EXPECT_EQ(response["choices"][1]["index"], 1);
    EXPECT_EQ(response["choices"][1]["message"]["content"], "b");
    EXPECT_EQ(response["choices"][1]["finish_reason"], "length");
    EXPECT_EQ(response["usage"]["prompt_tokens"], 10);
    EXPECT_EQ(response["usage"]["completion_tokens"], 8);
    EXPECT_EQ(response["usage"]["total_tokens"], 18);
    EXPECT_EQ(response["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    EXPECT_EQ(response["timings"]["decode_ms"], 2000.0);
    EXPECT_EQ(response["timings"]["queued_ms"], 1.0);
    EXPECT_EQ(response["timings"]["preemptions"], 2);
    EXPECT_EQ(response["attention"]["selections"], 6);
    EXPECT_EQ(response["attention"]["prompt_mass"], 0.75);
}

TEST(ChatResponse, GivesTheBytesOfTokensThatAreHalfACharacter) {
    const FinishedAnswer answer{{"é", {1, 2}, {{{1, -0.5F}, {1, -0.5F}, {0, -1.0F}}, {{2, 0.0F}, {4, -2.0F}}}},
                                ended(TurnOutcome::stop, 2)};
    const Json response = Json::parse(chat_response(chat_head, {&answer, 1}, bytes_of_test_token));
    EXPECT_EQ(response["choices"][0]["logprobs"], parsed(R"({"content": [
        {"token": "\ufffd", "logprob": -0.5, "bytes": [195], "top_logprobs": [
            {"token": "\ufffd", "logprob": -0.5, "bytes": [195]},
            {"token": "Hi", "logprob": -1.0, "bytes": [72, 105]}]},
        {"token": "\ufffd", "logprob": 0.0, "bytes": [169], "top_logprobs": [
            {"token": "", "logprob": -2.0, "bytes": []}]}]})"));
}

TEST(ChatResponse, IsValidUtf8WhateverTheModelSays) {
    const FinishedAnswer answer{{"\xFF\xC3 a\xE2\x82", {}, {}}, ended(TurnOutcome::stop, 1)};
    const AnswerHead odd{"x\xFF", 0, "m\xC3", false};
    const std::string text = chat_response(odd, {&answer, 1}, bytes_of_test_token);
    EXPECT_TRUE(unicode::is_valid(text));
    EXPECT_EQ(Json::parse(text)["choices"][0]["message"]["content"], "\uFFFD\uFFFD a\uFFFD");
}

TEST(ChatStream, GivesRoleThenDeltasThenFinishThenUsageThenDone) {
    const Json role = event_json(chat_role_event(head_with_usage, 1));
    EXPECT_EQ(role, parsed(R"({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000,
        "model": "demo", "usage": null, "choices": [{"index": 1, "delta": {"role": "assistant", "content": ""},
        "logprobs": null, "finish_reason": null}]})"));
    const Json delta =
        event_json(chat_delta_event(head_with_usage, 1, {"Hé", {0}, {{{0, -1.0F}}}}, bytes_of_test_token));
    EXPECT_EQ(delta["choices"], parsed(R"([{"index": 1, "delta": {"content": "Hé"}, "logprobs": {"content": [
        {"token": "Hi", "logprob": -1.0, "bytes": [72, 105], "top_logprobs": []}]}, "finish_reason": null}])"));
    EXPECT_TRUE(delta.contains("usage") && delta["usage"].is_null());
    const TurnEnd end = ended(TurnOutcome::length, 3);
    const Json finish = event_json(chat_finish_event(head_with_usage, 1, end));
    EXPECT_EQ(finish["choices"], parsed(R"([{"index": 1, "delta": {}, "logprobs": null, "finish_reason": "length"}])"));
    EXPECT_EQ(finish["timings"]["prefill_ms"], 250.0);
    EXPECT_EQ(finish["attention"]["answer_density"], 0.125);
    const Json usage = event_json(chat_usage_event(head_with_usage, end.usage));
    EXPECT_EQ(usage["choices"], Json::array());
    EXPECT_EQ(usage["usage"]["total_tokens"], 13);
    EXPECT_EQ(stream_done(), "data: [DONE]\n\n");
}

TEST(ChatStream, SaysNothingOfUsageUnasked) {
    EXPECT_FALSE(event_json(chat_role_event(chat_head, 0)).contains("usage"));
    EXPECT_FALSE(event_json(chat_finish_event(chat_head, 0, ended(TurnOutcome::stop, 1))).contains("usage"));
    EXPECT_EQ(chat_usage_event(chat_head, {}), "");
}

TEST(ChatStream, HasNoEventForADeltaThatTellsNothing) {
    EXPECT_EQ(chat_delta_event(chat_head, 0, {"", {7}, {}}, bytes_of_test_token), "");
    EXPECT_NE(chat_delta_event(chat_head, 0, {"", {1}, {{{1, -1.0F}}}}, bytes_of_test_token), "");
}

TEST(ChatStream, KeepsLineBreaksOfAnAnswerInsideItsEvent) {
    const Json delta =
        event_json(chat_delta_event(chat_head, 0, {"a\n\ndata: [DONE]\r\n\n", {}, {}}, bytes_of_test_token));
    EXPECT_EQ(delta["choices"][0]["delta"]["content"], "a\n\ndata: [DONE]\r\n\n");
}

TEST(ChatStream, TellsWhyItBreaksOff) {
    TurnEnd end = ended(TurnOutcome::cancelled, 1);
    EXPECT_EQ(error_of(end).code, ErrorCode::cancelled);
    end.outcome = TurnOutcome::failed;
    end.error = make_error(ErrorCode::timeout, "the deadline passed");
    const Json error = event_json(stream_error(api_error(error_of(end))));
    EXPECT_EQ(error["error"]["code"], "timeout");
    EXPECT_EQ(error["error"]["message"], "the deadline passed");
    EXPECT_TRUE(finish_reason_json(TurnOutcome::failed).is_null());
}

}  // namespace
}  // namespace rondo
