#include <gtest/gtest.h>

#include "actors/gateway/bodies/responses_request.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

using Kind = ToolChoice::Kind;

constexpr int64_t vocabulary = 100;

ApiResult<ResponsesRequest> asking(const std::string& members) {
    return parse_responses_request("{" + members + "}", vocabulary);
}

ApiResult<ResponsesRequest> with(const std::string& members) {
    return asking(R"("input":"Hi",)" + members);
}

ResponsesRequest accepted(ApiResult<ResponsesRequest> request) {
    EXPECT_TRUE(request.is_ok()) << request.error().message;
    return request ? *std::move(request) : ResponsesRequest();
}

/// "role: content more_json", a line each.
std::string said(const std::string& input) {
    std::string all;
    for (const ChatMessage& message : accepted(asking("\"input\":" + input)).messages)
        all +=
            message.role + ": " + message.content + (message.more_json.empty() ? "" : " " + message.more_json) + "\n";
    return all;
}

TEST(ResponsesRequest, HasItsDefaults) {
    const ResponsesRequest request = accepted(asking(R"("input":"Hi")"));
    ASSERT_EQ(request.messages.size(), 1U);
    EXPECT_EQ(request.messages[0].role, "user");
    EXPECT_EQ(request.messages[0].content, "Hi");
    EXPECT_TRUE(request.is_stored);
    EXPECT_EQ(request.previous, "");
    EXPECT_FALSE(request.tokens_max_given);
    EXPECT_EQ(request.told_back.dump(),
              R"({"instructions":null,"max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,)"
              R"("previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":true,)"
              R"("temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,)"
              R"("truncation":"disabled"})");
}

TEST(ResponsesRequest, ReadsEveryField) {
    const ResponsesRequest request = accepted(with(
        R"("model":"demo","instructions":"Be brief.","max_output_tokens":7,"temperature":0.5,"top_p":0.25,"seed":3,)"
        R"("stream":true,"stream_options":{"include_obfuscation":false},"store":false,"previous_response_id":"resp_1",)"
        R"("reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"json_object"},"verbosity":"medium"},)"
        R"("tools":[{"type":"function","name":"f","strict":false,"parameters":{"z":1,"a":2}}],)"
        R"("tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,"metadata":{"a":"b"},)"
        R"("include":["reasoning.encrypted_content"],"truncation":"disabled","background":false,"user":"u",)"
        R"("service_tier":"auto","prompt_cache_key":"k","top_logprobs":0,"max_tool_calls":null,"method":"dense")"));
    ASSERT_EQ(request.messages.size(), 2U);
    EXPECT_EQ(request.messages[0].role, "system");
    EXPECT_EQ(request.options.tokens_max, 7);
    EXPECT_TRUE(request.tokens_max_given);
    EXPECT_TRUE(request.stream);
    EXPECT_FALSE(request.is_stored);
    EXPECT_EQ(request.previous, "resp_1");
    EXPECT_EQ(request.for_template.reasoning_effort, "low");
    EXPECT_EQ(request.options.format, AnswerFormat::json_object());
    EXPECT_EQ(request.tools.list,
              R"([{"type":"function","function":{"name":"f","strict":false,"parameters":{"z":1,"a":2}}}])");
    EXPECT_EQ(request.tools.choice.kind, Kind::required);
    EXPECT_EQ(request.tools.choice.name, "f");
    EXPECT_FALSE(request.tools.choice.several);
    EXPECT_EQ(request.told_back.at("metadata").dump(), R"({"a":"b"})");
    EXPECT_EQ(request.told_back.at("previous_response_id"), "resp_1");
}

TEST(ResponsesRequest, ItemsBecomeMessages) {
    EXPECT_EQ(said(R"([{"role":"developer","content":"D"},{"type":"message","role":"user","content":[)"
                   R"({"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}])"),
              "system: D\nuser: a\nb\n");
    // An answer's items are one message; what stands behind its calls begins another.
    EXPECT_EQ(said(R"([{"role":"user","content":"q"},)"
                   R"({"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},)"
                   R"({"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[)"
                   R"({"type":"output_text","text":"So.","annotations":[],"logprobs":[],"parsed":{"a":1}}]},)"
                   R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"z\": 1,\"a\":2}",)"
                   R"("parsed_arguments":{"z":1},"status":"completed"},)"
                   R"({"type":"function_call","call_id":"c2","name":"g","arguments":""},)"
                   R"({"type":"function_call_output","call_id":"c1","output":"one"},)"
                   R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},)"
                   R"({"type":"function_call","call_id":"c3","name":"f","arguments":"{}"},)"
                   R"({"role":"assistant","content":"Behind it."},{"role":"assistant","content":"And again."}])"),
              R"(user: q
assistant: So. {"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"z": 1,"a":2}}},{"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]}
tool: one {"tool_call_id":"c1"}
tool: two {"tool_call_id":"c2"}
assistant:  {"tool_calls":[{"id":"c3","type":"function","function":{"name":"f","arguments":{}}}],"content":null}
assistant: Behind it.
assistant: And again.
)");
    EXPECT_EQ(said(R"([{"type":"reasoning","summary":[],"encrypted_content":"x"},{"role":"user","content":"q"}])"),
              "user: q\n");
}

TEST(ResponsesRequest, RefusesByName) {
    const auto item = [](const std::string& text) { return "\"input\":[" + text + "]"; };
    expect_refused({{R"("model":"demo")", "input", "missing"},
                    {R"("input":[])", "input", "at least one"},
                    {R"("input":1)", "input", "a list"},
                    {item("1"), "input[0]", "an item"},
                    {item(R"({"type":"item_reference","id":"x"})"), "input[0].type", "function_call_output"},
                    {item(R"({"role":"tool","content":"x"})"), "input[0].role", "assistant"},
                    {item(R"({"content":"x"})"), "input[0].role", "missing"},
                    {item(R"({"role":"user"})"), "input[0].content", "missing"},
                    {item(R"({"role":"user","content":[{"type":"input_image","image_url":"x"}]})"),
                     "input[0].content[0].type", "input_text"},
                    {item(R"({"role":"user","content":"x","name":"y"})"), "input[0].name", "not a field"},
                    {item(R"({"type":"function_call","name":"f","arguments":"{}"})"), "input[0].call_id", "missing"},
                    {item(R"({"type":"function_call","call_id":"c","arguments":"{}"})"), "input[0].name", "missing"},
                    {item(R"({"type":"function_call","call_id":"c","name":"f","arguments":"[]"})"),
                     "input[0].arguments", "a JSON object"},
                    {item(R"({"type":"function_call_output","output":"x"})"), "input[0].call_id", "missing"}},
                   asking);
    expect_refused(
        {{R"("tools":[{"type":"web_search"}])", "tools[0].type", "function"},
         {R"("tools":["f"])", "tools[0]", "an object"},
         {R"("tool_choice":"required")", "tool_choice", "without tools"},
         {R"("tool_choice":{"type":"file_search"})", "tool_choice.type", "function"},
         {R"("tool_choice":{"type":"function"})", "tool_choice.name", "missing"},
         {R"("tool_choice":1)", "tool_choice", "none, auto"},
         {R"("text":"x")", "text", "format"},
         {R"("text":{"format":{"type":"xml"}})", "text.format.type", "json_schema"},
         {R"("text":{"format":{"type":"json_schema"}})", "text.format.schema", "missing"},
         {R"("text":{"format":{"type":"json_schema","name":"n","schema":{"enum":[]}}})", "text.format.schema", "enum"},
         {R"("text":{"verbosity":"low"})", "text.verbosity", "not supported"},
         {R"("reasoning":{"effort":"much"})", "reasoning.effort", "low"},
         {R"("include":["message.output_text.logprobs"])", "include[0]", "not supported"},
         {R"("background":true)", "background", "not supported"},
         {R"("truncation":"auto")", "truncation", "not supported"},
         {R"("prompt":{"id":"x"})", "prompt", "not supported"},
         {R"("max_output_tokens":0)", "max_output_tokens", "1 to"},
         {R"("n":2)", "n", "must be 1"},
         {R"("conversation":"c","previous_response_id":"r")", "previous_response_id", "one of the two"},
         {R"("messages":[])", "messages", "not a field"},
         {R"("max_tokens":5)", "max_tokens", "max_output_tokens"},
         {R"("max_completion_tokens":5)", "max_completion_tokens", "not a field"}},
        with);
    std::string calls;
    for (size_t i = 0; i <= limits::tool_calls_max; ++i)
        calls +=
            (i > 0 ? "," : "") + std::string(R"({"type":"function_call","call_id":"c","name":"f","arguments":""})");
    expect_refused({{item(calls), "input[128].type", "128"}}, asking);
}

}  // namespace
}  // namespace rondo
