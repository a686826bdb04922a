#include <gtest/gtest.h>

#include "actors/gateway/bodies/chat_request.hpp"
#include "actors/gateway/bodies/tools.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

using Kind = ToolChoice::Kind;

constexpr int64_t vocabulary = 100;
const std::string one_tool = R"("tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])";

ApiResult<ChatRequest> chat_with(const std::string& members) {
    return parse_chat_request(R"({"messages":[{"role":"user","content":"Hi"}],)" + members + "}", vocabulary);
}

ToolFields fields_of(const std::string& members) {
    auto request = chat_with(members);
    EXPECT_TRUE(request.is_ok()) << request.error().message;
    return request ? std::move(request->tools) : ToolFields();
}

TEST(ToolFields, KeepTheirOrder) {
    const ToolFields fields = fields_of(one_tool);
    EXPECT_EQ(fields.list, R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])");
    EXPECT_EQ(fields.choice.kind, Kind::automatic);
    EXPECT_TRUE(fields.choice.several);
    EXPECT_EQ(fields_of(R"("tools":[])").list, "");
    EXPECT_EQ(fields_of(R"("tools":null,"tool_choice":"auto")").list, "");
}

TEST(ToolFields, SayWhatMayBeCalled) {
    EXPECT_EQ(fields_of(one_tool + R"(,"tool_choice":"auto")").choice.kind, Kind::automatic);
    EXPECT_EQ(fields_of(one_tool + R"(,"tool_choice":"none")").choice.kind, Kind::none);
    EXPECT_EQ(fields_of(one_tool + R"(,"tool_choice":"required")").choice.kind, Kind::required);
    EXPECT_FALSE(fields_of(one_tool + R"(,"parallel_tool_calls":false)").choice.several);
    const ToolFields named = fields_of(one_tool + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})");
    EXPECT_EQ(named.choice.kind, Kind::required);
    EXPECT_EQ(named.choice.name, "f");
}

TEST(ToolFields, AreRefusedByName) {
    const auto choice = [](const std::string& value) { return one_tool + ",\"tool_choice\":" + value; };
    expect_refused(
        {{R"("tools":{})", "tools", "a list"},
         {R"("tools":"f")", "tools", "a list"},
         {R"("tool_choice":"required")", "tool_choice", "there without tools"},
         {choice("\"any\""), "tool_choice", "none, auto, required"},
         {choice("1"), "tool_choice", "none, auto, required"},
         {choice("{}"), "tool_choice.type", "function"},
         {choice(R"({"type":"allowed_tools"})"), "tool_choice.type", "function"},
         {choice(R"({"type":"function"})"), "tool_choice.function", "missing"},
         {choice(R"({"type":"function","function":"f"})"), "tool_choice.function", "name"},
         {choice(R"({"type":"function","function":{}})"), "tool_choice.function.name", "missing"},
         {choice(R"({"type":"function","function":{"name":"f","x":1}})"), "tool_choice.function.x", "not a field"},
         {choice(R"({"type":"function","function":{"name":"f"},"x":1})"), "tool_choice.x", "not a field"},
         {one_tool + R"(,"parallel_tool_calls":"no")", "parallel_tool_calls", "true or false"}},
        chat_with);
    std::string many = R"("tools":[{})";
    for (size_t i = 0; i < limits::tools_max; ++i) many += ",{}";
    expect_refused({{many + "]", "tools", "128"}}, chat_with);
}

}  // namespace
}  // namespace rondo
