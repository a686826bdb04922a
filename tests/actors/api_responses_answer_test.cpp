#include <gtest/gtest.h>

#include "actors/gateway/bodies/responses_answer.hpp"
#include "tests/actors/api_answers.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

ResponsesAnswer answer() {
    return {{"resp_7", 1700000000, "demo"}, {{"tools", OrderedJson::array()}}};
}

TurnDelta thought(const std::string& text) {
    TurnDelta delta;
    delta.thought = text;
    return delta;
}
TurnDelta text(const std::string& said) {
    TurnDelta delta;
    delta.text = said;
    return delta;
}
TurnDelta called(ToolCallPiece piece) {
    TurnDelta delta;
    delta.calls.push_back(std::move(piece));
    return delta;
}

/// The events of a stream; each says its type twice, and they are numbered.
std::vector<Json> events_of(const std::string& stream) {
    std::vector<Json> events;
    for (size_t at = 0; (at = stream.find("event: ", at)) != std::string::npos;) {
        const size_t line = stream.find('\n', at), end = stream.find("\n\n", at);
        events.push_back(Json::parse(stream.substr(line + 7, end - line - 7)));
        EXPECT_EQ(events.back()["type"], stream.substr(at + 7, line - at - 7));
        EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
        at = end;
    }
    return events;
}

std::string all_of(ResponsesAnswer& made, TurnOutcome outcome = TurnOutcome::stop) {
    std::string stream = made.begin();
    for (const TurnDelta& delta :
         {thought("Hm"), thought("."), text("So"), text("."), called({0, "c1", "f", ""}), called({0, "", "", "{\"a\""}),
          called({0, "", "", ":1}"}), called({1, "c2", "g", "{}"})})
        stream += made.add(delta);
    return stream + made.finish(ended(outcome, 3));
}

TEST(ResponsesAnswer, TellsItsItemsAsTheyGrow) {
    ResponsesAnswer made = answer();
    const std::vector<Json> events = events_of(all_of(made));
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(event["type"].get<std::string>().substr(9));
    EXPECT_EQ(types, (std::vector<std::string>{"created",
                                               "in_progress",
                                               "output_item.added",
                                               "content_part.added",
                                               "reasoning_text.delta",
                                               "reasoning_text.delta",
                                               "reasoning_text.done",
                                               "content_part.done",
                                               "output_item.done",
                                               "output_item.added",
                                               "content_part.added",
                                               "output_text.delta",
                                               "output_text.delta",
                                               "output_text.done",
                                               "content_part.done",
                                               "output_item.done",
                                               "output_item.added",
                                               "function_call_arguments.delta",
                                               "function_call_arguments.delta",
                                               "function_call_arguments.done",
                                               "output_item.done",
                                               "output_item.added",
                                               "function_call_arguments.delta",
                                               "function_call_arguments.done",
                                               "output_item.done",
                                               "completed"}));
    EXPECT_EQ(events[0]["response"]["status"], "in_progress");
    EXPECT_EQ(events[0]["response"]["usage"], nullptr);
    EXPECT_EQ(events[9]["item"]["content"], Json::array());
    EXPECT_EQ(events[11], Json::parse(R"({"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_7-1",
        "output_index":1,"content_index":0,"delta":"So","logprobs":[]})"));
    EXPECT_EQ(events[19], Json::parse(R"({"type":"response.function_call_arguments.done","sequence_number":19,
        "item_id":"fc_7-2","output_index":2,"name":"f","arguments":"{\"a\":1}"})"));
    const Json whole = Json::parse(made.body());
    EXPECT_EQ(events.back()["response"], whole);
    EXPECT_EQ(whole["output"], Json::parse(R"([
        {"id":"rs_7-0","type":"reasoning","status":"completed","summary":[],
         "content":[{"type":"reasoning_text","text":"Hm."}]},
        {"id":"msg_7-1","type":"message","status":"completed","role":"assistant",
         "content":[{"type":"output_text","text":"So.","annotations":[],"logprobs":[]}]},
        {"id":"fc_7-2","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
        {"id":"fc_7-3","type":"function_call","status":"completed","call_id":"c2","name":"g","arguments":"{}"}])"));
    constexpr size_t done[] = {8, 15, 20, 24};
    for (size_t i = 0; i < std::size(done); ++i) EXPECT_EQ(events[done[i]]["item"], whole["output"][i]);
    EXPECT_EQ(whole["status"], "completed");
    EXPECT_EQ(whole["usage"]["output_tokens"], 3);
    EXPECT_EQ(whole["usage"]["total_tokens"], 13);
    EXPECT_EQ(whole["timings"]["preemptions"], 1);
}

TEST(ResponsesAnswer, ACutOneIsIncomplete) {
    ResponsesAnswer made = answer();
    const std::vector<Json> events = events_of(all_of(made, TurnOutcome::length));
    EXPECT_EQ(events.back()["type"], "response.incomplete");
    const Json whole = Json::parse(made.body());
    EXPECT_EQ(whole["status"], "incomplete");
    EXPECT_EQ(whole["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(whole["output"][2]["status"], "completed");
    EXPECT_EQ(whole["output"][3]["status"], "incomplete");
    EXPECT_EQ(whole["usage"]["output_tokens"], 3);
}

TEST(ResponsesAnswer, AnEmptyOneHasAMessage) {
    ResponsesAnswer made = answer();
    made.finish(ended(TurnOutcome::stop, 1));
    const Json whole = Json::parse(made.body());
    ASSERT_EQ(whole["output"].size(), 1U);
    EXPECT_EQ(whole["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesAnswer, AFailureEndsItOnce) {
    for (const bool begun : {false, true}) {
        ResponsesAnswer made = answer();
        std::string stream;
        if (begun) stream += made.begin();
        if (begun) stream += made.add(text("So"));
        stream += made.fail({504, "server_error", "timeout", "", "too late"});
        const std::vector<Json> events = events_of(stream);
        EXPECT_EQ(events.front()["type"], "response.created");
        EXPECT_EQ(events.back()["type"], "response.failed");
        const Json& response = events.back()["response"];
        EXPECT_EQ(response["status"], "failed");
        EXPECT_EQ(response["error"], Json::parse(R"({"code":"timeout","message":"too late"})"));
        EXPECT_EQ(response["usage"], nullptr);
        EXPECT_EQ(response["output"].size(), begun ? 1U : 0U);
    }
}

TEST(ResponsesAnswer, BytesThatAreNoTextBecomeText) {
    ResponsesAnswer made = answer();
    made.add(text("\xFF"));
    made.finish(ended(TurnOutcome::stop, 1));
    EXPECT_TRUE(Json::accept(made.body()));
}

}  // namespace
}  // namespace rondo
