#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/text/chat_template.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;

/// What a template writes of a call with these arguments; or the error.
std::string written(const std::string& call, const std::string& arguments) {
    const auto program = ChatTemplate::parse(
        "{{ bos_token + ':' }}{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}" + call +
            "{% endfor %}{% endif %}{% endfor %}",
        "test");
    if (!program) return program.error().message;
    ChatTemplateInput input;
    input.messages = {
        {"assistant", "",
         R"({"content": null, "tool_calls": [{"function": {"name": "f", "arguments": )" + arguments + "}}]}"}};
    input.bos_token = "<s>";
    const auto text = program->render(input);
    return text ? text->substr(text->find(':') + 1) : text.error().message;
}

const std::string two = R"({"z":1,"a":[true,"é"]})", two_as_json = R"({"z": 1, "a": [true, "é"]})";

/// As DeepSeek's templates do.
TEST(ToolCalls, ArgumentsAreTextForATemplateThatJoinsThem) {
    const std::string joining = "{{ '<' + c.function.arguments + '>' }}";
    EXPECT_EQ(written(joining, two), "<" + two_as_json + ">");
    EXPECT_EQ(written(joining, "{}"), "<{}>");
    EXPECT_EQ(written(joining, R"("{\"a\":1}")"), R"(<{"a":1}>)") << "what is text stays as it is";
    EXPECT_THAT(written(joining, "null"), HasSubstr("'+' does not work between string and none"));
}

TEST(ToolCalls, ArgumentsAreNotWrittenAsPythonPrintsADict) {
    EXPECT_EQ(written("{{ c['function']['arguments'] }}", two), two_as_json);
}

TEST(ToolCalls, ArgumentsAreADictForATemplateThatLooksIntoThem) {
    EXPECT_EQ(written("{{ c.function.arguments | tojson }}", two), two_as_json);
    EXPECT_EQ(written("{% for k, v in c.function.arguments.items() %}{{ k }}{{ v }},{% endfor %}", two),
              "z1,a[True, 'é'],");
    EXPECT_EQ(written("{% if c.function.arguments is string %}text{% else %}dict{% endif %}", two), "dict");
    EXPECT_EQ(written("{{ c.function | tojson }}", two), R"({"name": "f", "arguments": )" + two_as_json + "}");
}

TEST(ToolCalls, ArgumentsAreADictWhereNeitherWasRight) {
    EXPECT_EQ(written("{{ c.function.arguments.z + 1 }}", two), "2");
    EXPECT_THAT(written("{{ raise_exception('none') }}{{ c.function.arguments }}", two), HasSubstr("refuses: none"));
}

}  // namespace
}  // namespace rondo
