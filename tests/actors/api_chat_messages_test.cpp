// What a chat's messages may hold, and which of them is named when one is wrong.

#include <gtest/gtest.h>

#include "actors/gateway/bodies/chat_messages.hpp"
#include "actors/gateway/bodies/chat_request.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

/// A body whose messages are these.
ApiResult<ChatRequest> saying(const std::string& messages) {
    return parse_chat_request(R"({"messages":)" + messages + "}", vocabulary);
}

/// Messages of which one calls tools.
std::string calling(const std::string& calls) {
    return R"([{"role":"assistant","content":null,"tool_calls":[)" + calls + "]}]";
}

TEST(ChatMessages, ReadsEveryRoleAndKindOfContent) {
    const ChatRequest request = accepted(
        saying(R"([{"role":"developer","content":"d"},{"role":"system","content":""},{"role":"user","content":)"
               R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null},)"
               R"({"role":"assistant","refusal":null,"tool_calls":[],"annotations":[],"function_call":null},)"
               R"({"role":"tool","tool_call_id":"1","content":"t"}])"));
    ASSERT_EQ(request.messages.size(), 6U);
    const std::vector<std::pair<std::string, std::string>> right = {
        {"system", "d"}, {"system", ""}, {"user", "a\nb"}, {"assistant", ""}, {"assistant", ""}, {"tool", "t"}};
    for (size_t i = 0; i < right.size(); ++i) {
        EXPECT_EQ(request.messages[i].role, right[i].first) << i;
        EXPECT_EQ(request.messages[i].content, right[i].second) << i;
    }
}

TEST(ChatMessages, NamesTheMessageThatIsWrong) {
    std::string many = "[";
    for (size_t i = 0; i <= limits::messages_max; ++i) many += R"({"role":"user","content":"x"},)";
    many.back() = ']';
    const std::string user = R"({"role":"user","content":)";
    expect_refused({{"[]", "messages", "at least one"},
                    {"{}", "messages", "a list"},
                    {"\"x\"", "messages", "a list"},
                    {"[1]", "messages[0]", "a message"},
                    {"[null]", "messages[0]", "a message"},
                    {many, "messages", "up to 16384"},
                    {R"([{"content":"x"}])", "messages[0].role", "system, developer"},
                    {R"([{"role":"root","content":"x"}])", "messages[0].role", "system, developer"},
                    {R"([{"role":1,"content":"x"}])", "messages[0].role", ""},
                    {R"([{"role":"user"}])", "messages[0].content", "a string"},
                    {"[" + user + "null}]", "messages[0].content", "a string"},
                    {"[" + user + "1}]", "messages[0].content", "a string"},
                    {"[" + user + "[]}]", "messages[0].content", "text parts"},
                    {"[" + user + "\"a\"}," + user + "[\"x\"]}]", "messages[1].content[0]", "a text part"},
                    {"[" + user + R"([{"type":"image_url","image_url":{"url":"x"}}]}])", "messages[0].content[0].type",
                     "image_url"},
                    {"[" + user + R"([{"type":"input_audio"}]}])", "messages[0].content[0].type", "input_audio"},
                    {"[" + user + R"([{"type":"text"}]}])", "messages[0].content[0].text", "missing"},
                    {"[" + user + R"([{"text":"x"}]}])", "messages[0].content[0].type", "missing"},
                    {"[" + user + R"([{"type":"text","text":1}]}])", "messages[0].content[0].text", "a string"},
                    {"[" + user + R"([{"type":"text","text":"x","y":1}]}])", "messages[0].content[0].y", ""},
                    {"[" + user + R"("x","weight":1}])", "messages[0].weight", "not a field"},
                    {"[" + user + R"("x","name":1}])", "messages[0].name", "a string"},
                    {"[" + user + R"("x","tool_calls":[{"id":"1"}]}])", "messages[0].tool_calls", "not supported"},
                    {"[" + user + R"("x","reasoning_content":"y"}])", "messages[0].reasoning_content", "not a field"},
                    {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls", "a list"},
                    {R"([{"role":"assistant","tool_calls":["f"]}])", "messages[0].tool_calls[0]", "a tool call"},
                    {calling(R"({"id":"1"})"), "messages[0].tool_calls[0].function", "missing"},
                    {calling(R"({"id":"1","type":"custom"})"), "messages[0].tool_calls[0].type", "function"},
                    {calling(R"({"function":{}})"), "messages[0].tool_calls[0].function.name", "missing"},
                    {calling(R"({"function":{"name":"f","arguments":"{"}})"),
                     "messages[0].tool_calls[0].function.arguments", "a JSON object"},
                    {calling(R"({"function":{"name":"f","arguments":"[1]"}})"),
                     "messages[0].tool_calls[0].function.arguments", "a JSON object"},
                    {calling(R"({"function":{"name":"f","arguments":{}}})"),
                     "messages[0].tool_calls[0].function.arguments", "a string"},
                    {calling(R"({"function":{"name":"f","strict":true}})"), "messages[0].tool_calls[0].function.strict",
                     "not a field"}},
                   saying);
}

TEST(ChatMessages, NeverRepeatsWhatWasSaid) {
    const std::string secret = "canary-7f3a";
    for (const std::string& body :
         {R"([{"role":")" + secret + R"(","content":"x"}])", R"([{"role":"user","content":[")" + secret + R"("]}])",
          R"([{"role":"user","content":[{"type":")" + secret + R"("}]}])",
          R"([{"role":"user","content":")" + secret + R"("}],"n":9)",
          R"([{"role":"user","content":"x"}],"stop":[")" + secret + std::string(300, 'x') + "\"]",
          R"([{"role":"user","content":"x"}],"conversation":")" + secret + "\\n\"",
          R"([{"role":"user","content":"x"}],"service_tier":")" + secret + "\"",
          R"([{"role":"user","content":"x"}],"seed":")" + secret + "\"", R"([{"role":"user","content":")" + secret}) {
        const auto request = saying(body);
        ASSERT_FALSE(request.is_ok()) << body;
        EXPECT_EQ(request.error().body().find(secret), std::string::npos) << request.error().message;
    }
}

/// Its arguments come as text, and go to the template as the object that they are, in their own order.
TEST(ChatMessages, KeepsWhatAMessageCarriesForTheTemplate) {
    const ChatRequest request = accepted(saying(
        R"([{"role":"user","content":"x","name":"Ann \"A\""},{"role":"assistant","content":null,"refusal":null,)"
        R"("reasoning_content":"hm","parsed":{"a":1},"tool_calls":[{"id":"c1","type":"function","index":0,)"
        R"("function":{"parsed_arguments":{"a":[1]},"name":"f",)"
        R"("arguments":"{\"z\":1,\"a\":{}}"}},{"function":{"name":"g","arguments":""}}]},)"
        R"({"role":"tool","content":"t","tool_call_id":"c1"},{"role":"user","content":"no \"tool_calls\":[ here",)"
        R"("name":"\"tool_calls\":["}])"));
    EXPECT_EQ(request.messages[0].more_json, R"({"name":"Ann \"A\""})");
    EXPECT_EQ(request.messages[1].content, "");
    EXPECT_EQ(request.messages[1].more_json,
              R"({"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",)"
              R"("arguments":{"z":1,"a":{}}}},{"id":"","type":"function","function":{"name":"g","arguments":{}}}],)"
              R"("content":null})");
    EXPECT_EQ(request.messages[2].more_json, R"({"tool_call_id":"c1"})");
    for (size_t i = 0; i < request.messages.size(); ++i) {
        EXPECT_EQ(has_tool_calls(request.messages[i]), i == 1) << i;
        if (!request.messages[i].more_json.empty()) {
            EXPECT_TRUE(nlohmann::json::parse(request.messages[i].more_json).is_object());
        }
    }
}

}  // namespace
}  // namespace rondo
