#include "model/tools/called_tools.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/model/called_tools.hpp"

namespace rondo {
namespace {

using testing::style_of_template;

struct Told {
    std::string text;
    std::vector<ToolCallPiece> calls;
    bool whole = false;
};

/// What an answer comes to that is pushed in these pieces.
Told told(const CallStyle& style, const std::vector<std::string>& pieces) {
    int ids = 0;
    CalledTools calls(style, [&ids] { return "id" + std::to_string(++ids); });
    Told all;
    const auto add = [&](CalledTools::Parts parts) {
        all.text += parts.text;
        int begun = static_cast<int>(all.calls.size());
        for (const ToolCallPiece& piece : parts.calls) {
            EXPECT_EQ(piece.id.empty(), piece.name.empty());
            begun += piece.id.empty() ? 0 : 1;
            EXPECT_EQ(piece.index, begun - 1);
        }
        add_calls(parts.calls, all.calls);
    };
    for (const std::string& piece : pieces) add(calls.push(piece));
    add(calls.finish());
    all.whole = calls.are_whole();
    return all;
}

std::string as_text(const Told& told) {
    std::string text = told.text + (told.whole ? "|whole" : "|");
    for (const ToolCallPiece& call : told.calls) text += "|" + call.id + " " + call.name + " " + call.arguments;
    return text;
}

struct Case {
    const char* style;
    std::string answer, wanted;
};

const std::string qwen_call =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"{\", \"b\": [{}]}}\n</tool_call>";
const std::string qwen_arguments = R"({"a": "}\"{", "b": [{}]})";

const std::vector<Case>& cases() {
    static const std::vector<Case> all{
        {"qwen-3", "", "|"},
        {"qwen-3", "Hello <tool> you\n", "Hello <tool> you\n|"},
        {"qwen-3", "  Hello\n\n<tool_cal", "  Hello\n\n<tool_cal|"},
        {"qwen-3", qwen_call, "|whole|id1 f " + qwen_arguments},
        {"qwen-3", "\n " + qwen_call, "|whole|id1 f " + qwen_arguments},
        {"qwen-3", "Well.\n" + qwen_call, "Well.|whole|id1 f " + qwen_arguments},
        {"qwen-3", "a<<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>", "a<|whole|id1 g {}"},
        {"qwen-3", qwen_call + "\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
         "|whole|id1 f " + qwen_arguments + "|id2 g {}"},
        {"qwen-3", "x" + std::string(70, ' ') + qwen_call, "x      |whole|id1 f " + qwen_arguments},
        // Cut off.
        {"qwen-3", "Well.\n<tool_call>", "Well.|"},
        {"qwen-3", "<tool_call>\n{\"name\": \"f\", \"argu", "|"},
        {"qwen-3", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a", "||id1 f {\"a"},
        {"qwen-3", qwen_call + "\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"",
         "||id1 f " + qwen_arguments + "|id2 g {\""},
        // What a style does not write, nothing is told of.
        {"qwen-3", "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "|"},
        {"llama-3.2", "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", "|whole|id1 f {\"a\": \"b\"}"},
        {"llama-3.2", "{\"name", "{\"name|"},
        {"llama-3.2", "{\"code\": 1}", "{\"code\": 1}|"},
        {"llama-3.2", "So {\"name\": \"f\", \"parameters\": {}}", "So {\"name\": \"f\", \"parameters\": {}}|"},
        {"mistral-v3", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefgh1\"}]",
         "|whole|abcdefgh1 f {\"a\": 1}"},
        {"mistral-v3",
         "So: [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefgh1\"}, {\"name\": \"g\", "
         "\"arguments\": {}, \"id\": \"abcdefgh2\"}]",
         "So:|whole|abcdefgh1 f {\"a\": 1}|abcdefgh2 g {}"},
        {"mistral-v3", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc",
         "||id1 f {\"a\": 1}"}};
    return all;
}

TEST(CalledTools, AreToldApartFromTheText) {
    for (const Case& one : cases()) {
        const CallStyle style = style_of_template(one.style);
        EXPECT_EQ(as_text(told(style, {one.answer})), one.wanted) << one.answer;
    }
}

TEST(CalledTools, AreTheSameInAnyPieces) {
    std::mt19937 random(5);
    for (const Case& one : cases()) {
        const CallStyle style = style_of_template(one.style);
        std::vector<std::string> bytes;
        for (const char byte : one.answer) bytes.emplace_back(1, byte);
        EXPECT_EQ(as_text(told(style, bytes)), one.wanted) << one.answer << " by bytes";
        for (int round = 0; round < 20; ++round) {
            std::vector<std::string> pieces(1);
            for (const char byte : one.answer) {
                if (random() % 5 == 0) pieces.emplace_back();
                pieces.back() += byte;
            }
            EXPECT_EQ(as_text(told(style, pieces)), one.wanted) << one.answer;
        }
    }
}

TEST(CalledTools, ArgumentsAreToldAsTheyCome) {
    const CallStyle style = style_of_template("qwen-3");
    CalledTools calls(style, [] { return "id"; });
    EXPECT_TRUE(calls.push("Hm.\n").text == "Hm.");
    EXPECT_TRUE(calls.push("<tool_call>\n{\"name\": \"f").calls.empty());
    const auto begun = calls.push("\", \"arguments\": {\"a\": \"x").calls;
    ASSERT_EQ(begun.size(), 1U);
    EXPECT_EQ(begun[0].name, "f");
    EXPECT_EQ(begun[0].arguments, "{\"a\": \"x");
    const auto more = calls.push("y\"").calls;
    ASSERT_EQ(more.size(), 1U);
    EXPECT_EQ(more[0].id, "");
    EXPECT_EQ(more[0].arguments, "y\"");
    EXPECT_FALSE(calls.are_whole());
    EXPECT_EQ(calls.push("}}").calls.at(0).arguments, "}");
    EXPECT_TRUE(calls.are_whole());
}

TEST(CalledTools, ALongTextOfBlanksIsNotHeldBack) {
    const CallStyle style = style_of_template("qwen-3");
    CalledTools calls(style, [] { return "id"; });
    size_t bytes = 0;
    for (int i = 0; i < 100'000; ++i) bytes += calls.push(" ").text.size();
    EXPECT_GT(bytes, 99'900U);
}

}  // namespace
}  // namespace rondo
