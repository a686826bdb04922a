#include "model/tools/written_calls.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/called_tools.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::style_of_template;

TEST(WrittenCalls, AnAnswerIsWrittenAsItWasSaid) {
    const std::string arguments = R"({"b": "x\n\"}", "a": [1, true, {"é": null}]})";
    const std::vector<std::pair<const char*, std::vector<std::string>>> rows{
        {"qwen-3",
         {"<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>",
          "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
          "\"arguments\": " +
              arguments + "}\n</tool_call>"}},
        {"llama-3.2", {"{\"name\": \"f\", \"parameters\": " + arguments + "}"}},
        {"mistral-v3",
         {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": " + arguments + ", \"id\": \"abcdefgh1\"}]",
          "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"abcdefgh1\"}, {\"name\": \"g\", "
          "\"arguments\": {}, \"id\": \"abcdefgh2\"}]"}}};
    for (const auto& [name, answers] : rows) {
        const CallStyle style = style_of_template(name);
        for (const std::string& answer : answers) {
            const ChatMessage message = answer_message(answer, &style);
            EXPECT_EQ(message.role, "assistant");
            EXPECT_EQ(message.content, "");
            EXPECT_TRUE(json::parse(message.more_json)["content"].is_null());
            EXPECT_EQ(written_calls(message, &style), answer);
        }
    }
    const CallStyle qwen = style_of_template("qwen-3");
    const ChatMessage both = answer_message("<think>\nhm\n</think>\n\n" + rows[0].second[0], &qwen);
    EXPECT_EQ(both.content, "<think>\nhm\n</think>");
    EXPECT_EQ(written_calls(both, &qwen), rows[0].second[0]);
    EXPECT_FALSE(json::parse(both.more_json).contains("content"));
}

TEST(WrittenCalls, WhatIsNoWholeCallStaysAText) {
    const CallStyle style = style_of_template("qwen-3");
    for (const char* answer : {"", "Hello", "<tool_call>", "A <tool_call> is written so.",
                               "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\"",
                               "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\"}}\n</tool_call>"}) {
        const ChatMessage message = answer_message(answer, &style);
        EXPECT_EQ(message.content, answer);
        EXPECT_EQ(message.more_json, "");
        EXPECT_EQ(answer_message(answer, nullptr).content, answer);
    }
    for (const char* more : {"", "{}", R"({"tool_calls":null})", R"({"tool_calls":[]})", R"({"name":"tool_calls"})"})
        EXPECT_EQ(written_calls({"assistant", "x", more}, &style), "") << more;
    // Of another form than OpenAI's: a host may send anything.
    for (const char* more :
         {R"({"tool_calls":[1]})", R"({"tool_calls":{"a":1}})", R"({"tool_calls":[{"function":1}]})"})
        EXPECT_EQ(written_calls({"assistant", "x", more}, &style), style.begin + style.between + "null" + style.behind)
            << more;
    EXPECT_EQ(written_calls({"assistant", "x", R"({"tool_calls":[{}]})"}, nullptr), "");
}

}  // namespace
}  // namespace rondo
