#include <gtest/gtest.h>

#include "actors/gateway/bodies/template_fields.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

ChatTemplate compiled(const std::string& source) {
    auto made = ChatTemplate::parse(source, "test");
    EXPECT_TRUE(made.is_ok()) << made.error().message;
    return std::move(made).value();
}

/// What a template is given for these fields; the error's parameter where there is one.
std::string given(const std::string& source, const std::string& variables, const std::string& effort = "") {
    const ChatTemplate chat_template = compiled(source);
    TemplateFields fields;
    fields.variables = Json::parse(variables);
    fields.reasoning_effort = effort;
    const ApiResult<std::string> made = fit_to_template(fields, {}, &chat_template);
    if (made) return *made;
    EXPECT_EQ(made.error().status, 400);
    EXPECT_NE(made.error().message.find("is not read by this model's chat template"), std::string::npos);
    return made.error().param;
}

TEST(TemplateFields, AreGivenToATemplateThatReadsThem) {
    const std::string qwen = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}";
    EXPECT_EQ(given(qwen, "{}"), "");
    EXPECT_EQ(given(qwen, R"({"enable_thinking":false})"), R"({"enable_thinking":false})");
    EXPECT_EQ(given("{{ a['k'] }}", R"({"a":{"k":[1,"x"]},"k":2})"), R"({"a":{"k":[1,"x"]},"k":2})");
}

TEST(TemplateFields, ThatItDoesNotReadAreRefusedUnlessTheyAskForNothing) {
    EXPECT_EQ(given("{{ messages }}", R"({"enable_thinking":true})"), "chat_template_kwargs.enable_thinking");
    EXPECT_EQ(given("{{ messages }}", R"({"enable_thnking":"x"})"), "chat_template_kwargs.enable_thnking");
    EXPECT_EQ(given("{# enable_thinking #}", R"({"enable_thinking":true})"), "chat_template_kwargs.enable_thinking");
    EXPECT_EQ(given("x", R"({"enable_thinking":false,"thinking":null})"),
              R"({"enable_thinking":false,"thinking":null})");
}

TEST(TemplateFields, ReasoningEffortIsSaidInTheTemplatesOwnWord) {
    const std::string both = "{{ reasoning_effort }}{{ enable_thinking }}";
    EXPECT_EQ(given("{{ reasoning_effort }}", "{}", "high"), R"({"reasoning_effort":"high"})");
    EXPECT_EQ(given("{{ enable_thinking }}", "{}", "low"), R"({"enable_thinking":true})");
    EXPECT_EQ(given("{{ enable_thinking }}", "{}", "none"), R"({"enable_thinking":false})");
    EXPECT_EQ(given(both, "{}", "none"), R"({"enable_thinking":false,"reasoning_effort":"none"})");
    // What chat_template_kwargs says is the closer word.
    EXPECT_EQ(given(both, R"({"enable_thinking":false,"reasoning_effort":"x"})", "high"),
              R"({"enable_thinking":false,"reasoning_effort":"x"})");
    EXPECT_EQ(given("x", "{}", "high"), "reasoning_effort");
    EXPECT_EQ(given("x", "{}", "medium"), "");
    EXPECT_EQ(given("x", "{}", "none"), "");
}

TEST(TemplateFields, ToolCallsNeedATemplateThatSaysThem) {
    const ChatTemplate plain = compiled("{% for m in messages %}{{ m.content }}{% endfor %}"),
                       calling = compiled("{% for m in messages %}{{ m['tool_calls'] | tojson }}{% endfor %}");
    const std::vector<ChatMessage> messages{
        {"user", "x"}, {"assistant", "", R"({"tool_calls":[{"function":{"name":"f","arguments":{}}}]})"}};
    const ApiResult<std::string> refused = fit_to_template({}, messages, &plain);
    ASSERT_FALSE(refused.is_ok());
    EXPECT_EQ(refused.error().param, "messages[1].tool_calls");
    EXPECT_TRUE(fit_to_template({}, messages, &calling).is_ok());
    EXPECT_TRUE(fit_to_template({}, {messages.data(), 1}, &plain).is_ok());
    EXPECT_TRUE(fit_to_template({}, messages, nullptr).is_ok()) << "the turn says that there is no template";
}

}  // namespace
}  // namespace rondo
