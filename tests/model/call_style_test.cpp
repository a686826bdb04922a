#include "model/tools/call_style.hpp"

#include <gtest/gtest.h>

#include "tests/model/called_tools.hpp"

namespace rondo {
namespace {

using testing::compiled;
using testing::style_of_template;
using testing::template_of;

TEST(CallStyle, IsWhatTheTemplateWritesAroundNamesAndArguments) {
    for (const char* name : {"qwen-2.5", "qwen-3"}) {
        const CallStyle qwen = style_of_template(name);
        EXPECT_EQ(qwen.begin, "<tool_call>\n{\"name\": \"") << name;
        EXPECT_EQ(qwen.between, "\", \"arguments\": ");
        EXPECT_EQ(qwen.before_id, "");
        EXPECT_EQ(qwen.next, "}\n</tool_call>\n<tool_call>\n{\"name\": \"");
        EXPECT_EQ(qwen.behind, "}\n</tool_call>");
        EXPECT_EQ(qwen.cue(), "<tool_call>");
        EXPECT_FALSE(qwen.only_first());
        EXPECT_EQ(qwen.spelling, JsonSpelling::spaced);
    }
    for (const char* name : {"llama-3.1", "llama-3.2"}) {
        const CallStyle llama = style_of_template(name);
        EXPECT_EQ(llama.begin, "{\"name\": \"") << name;
        EXPECT_EQ(llama.between, "\", \"parameters\": ");
        EXPECT_EQ(llama.next, "") << "its template allows one call";
        EXPECT_EQ(llama.behind, "}");
        EXPECT_EQ(llama.cue(), "{\"name\": \"");
        EXPECT_TRUE(llama.only_first());
    }
    const CallStyle mistral = style_of_template("mistral-v3");
    EXPECT_EQ(mistral.begin, "[TOOL_CALLS] [{\"name\": \"");
    EXPECT_EQ(mistral.between, "\", \"arguments\": ");
    EXPECT_EQ(mistral.before_id, ", \"id\": \"");
    EXPECT_EQ(mistral.next, "\"}, {\"name\": \"");
    EXPECT_EQ(mistral.behind, "\"}]");
    EXPECT_EQ(mistral.cue(), "[TOOL_CALLS]");
    EXPECT_FALSE(mistral.only_first());
}

TEST(CallStyle, TemplatesWithoutCallsHaveNone) {
    for (const char* name : {"chatml", "demo", "llama-2", "llama-3", "mistral-v1", "qwen-1.5", "qwen-2"})
        EXPECT_FALSE(find_call_style(template_of(name))) << name;
}

/// A message's text and its calls; tools are named.
std::optional<CallStyle> style_of_call(const std::string& call, const std::string& before = "") {
    return find_call_style(compiled("{% if tools %}{{ tools }}{% endif %}{% for m in messages %}<{{ m.role }}>" +
                                    before + "{{ m.content }}{% for c in m.tool_calls or [] %}" + call +
                                    "{% endfor %}<end>{% endfor %}"));
}

TEST(CallStyle, OthersAreReadAsTheyAre) {
    const auto tagged = style_of_call("<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>");
    ASSERT_TRUE(tagged);
    EXPECT_EQ(tagged->begin, "<function=");
    EXPECT_EQ(tagged->cue(), "<function=");
    EXPECT_EQ(tagged->between, ">");
    EXPECT_EQ(tagged->next, "</function><function=");
    EXPECT_EQ(tagged->behind, "</function>");
    const auto compact = style_of_call(
        "[CALL]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson(separators=(',', ':')) }}", "\n");
    ASSERT_TRUE(compact);
    EXPECT_EQ(compact->spelling, JsonSpelling::compact);
    EXPECT_EQ(compact->begin, "[CALL]");
    EXPECT_EQ(compact->behind, "");
    const auto text = style_of_call("call: {{ c.function.name + ' with ' + c.function.arguments }};");
    ASSERT_TRUE(text) << "arguments as a text";
    EXPECT_EQ(text->cue(), "call: ");
    EXPECT_TRUE(text->only_first());
}

TEST(CallStyle, WhatCannotBeTakenApartHasNone) {
    for (const char* call :
         {"{{ c.function.name }} {{ c.function.arguments | tojson }}",    // nothing tells it from a text
          "<c>{{ c.function.name }}{{ c.function.arguments | tojson }}",  // nor the name from the arguments
          "<c>{{ c.function.name }}: {{ c.function.arguments | tojson(indent=2) }}",
          "<c>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}<{{ k }}>{{ v }}{% endfor %}",
          "<c>{{ c.function.arguments | tojson }} {{ c.function.name }}",  // arguments first
          "<c id={{ c.id }}>{{ c.function.name }}: {{ c.function.arguments | tojson }}",
          "<c>{{ c.function.name }}: {{ c.function.arguments | tojson }} {{ c.function.name }}", "<c>"})
        EXPECT_FALSE(style_of_call(call)) << call;
    EXPECT_FALSE(
        find_call_style(compiled("{{ tools }}{% for m in messages %}{% if m.tool_calls %}"
                                 "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}")));
    EXPECT_FALSE(find_call_style(compiled("{{ tools }}{{ messages[0].tool_calls }}")));
    for (const std::string& call :
         {"<" + std::string(64, 'c') + ">{{ c.function.name }}: {{ c.function.arguments | tojson }}",
          "<c>{{ c.function.name }}: {{ c.function.arguments | tojson }}" + std::string(5000, '.')})
        EXPECT_FALSE(style_of_call(call)) << "too long";
}

}  // namespace
}  // namespace rondo
