#include "model/text/thoughts.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ostream>

namespace rondo {
namespace {

/// Cut into pieces that end after byte i where bit i of `cuts` is set.
Thoughts::Parts parted(const std::string& text, bool begun, uint32_t cuts) {
    Thoughts thoughts(begun);
    Thoughts::Parts all;
    const auto take = [&](const Thoughts::Parts& parts) {
        all.thought += parts.thought;
        all.answer += parts.answer;
    };
    size_t begin = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (i + 1 < text.size() && (cuts >> (i % 32) & 1) == 0) continue;
        take(thoughts.push(std::string_view(text).substr(begin, i + 1 - begin)));
        begin = i + 1;
    }
    take(thoughts.finish());
    return all;
}

TEST(Thoughts, AreTheSameForEverySplitOfTheText) {
    struct Case {
        std::string text;
        bool begun;
        std::string thought, answer;
    };
    const Case cases[] = {
        {"<think>\na b\n</think>\n\nYes.", false, "a b", "Yes."},
        {"\n <think>a</think>b", false, "a", "b"},
        {"<think></think>b", false, "", "b"},
        {"<think>\n\n</think>\n\nb\n", false, "", "b\n"},
        {"a\n\n</think>\nb", true, "a", "b"},
        {"\na\n\nb</think>", true, "a\n\nb", ""},
        {"</think>b", true, "", "b"},
        {"<think>a < b </thin k>", false, "a < b </thin k>", ""},
        {"<think>a</thi", false, "a</thi", ""},
        {"<think>a\n\n", false, "a", ""},
        {"Plain text, <think>no</think>.", false, "", "Plain text, <think>no</think>."},
        {" <thinking>", false, "", " <thinking>"},
        {"<thi", false, "", "<thi"},
        {"\n\n", false, "", "\n\n"},
        {"", true, "", ""},
        {"<think>a</think>b</think>c<think>d", false, "a", "b</think>c<think>d"},
        {"a</think>\r\n<think>b", true, "a", "<think>b"},
        {"<think>né</think>à", false, "né", "à"},
    };
    for (const Case& one : cases) {
        for (uint32_t cuts : {0U, ~0U, 0xAAAAAAAAU, 0x55555555U, 0x11111111U, 0x12345678U, 0x0F0F0F0FU, 0xFEDCBA98U}) {
            const Thoughts::Parts parts = parted(one.text, one.begun, cuts);
            EXPECT_EQ(parts.thought, one.thought) << one.text << " cut " << cuts;
            EXPECT_EQ(parts.answer, one.answer) << one.text << " cut " << cuts;
        }
    }
}

TEST(Thoughts, AreToldAsSoonAsTheyAreCertain) {
    Thoughts thoughts(false);
    EXPECT_FALSE(thoughts.inside());
    EXPECT_EQ(thoughts.push("<think>\nI ").thought, "I ");
    EXPECT_TRUE(thoughts.inside());
    EXPECT_EQ(thoughts.push("see.\n").thought, "see.");
    EXPECT_EQ(thoughts.push("More<").thought, "\nMore");
    const Thoughts::Parts last = thoughts.push("/think>\nSo");
    EXPECT_EQ(last.thought, "");
    EXPECT_EQ(last.answer, "So");
    EXPECT_FALSE(thoughts.inside());
    EXPECT_EQ(thoughts.push(" it is.").answer, " it is.");
}

/// A model that says nothing but line breaks, before a thought or within it, must not slow down with every token.
TEST(Thoughts, DoNotLookAtLineBreaksAgain) {
    constexpr size_t pieces = 100'000;
    const std::string breaks(16, '\n');
    for (const bool begun : {false, true}) {
        Thoughts thoughts(begun);
        EXPECT_EQ(thoughts.push(begun ? "a" : "").thought, begun ? "a" : "");
        const auto begin = std::chrono::steady_clock::now();
        for (size_t i = 0; i < pieces; ++i) EXPECT_EQ(thoughts.push(breaks).thought, "");
        // Looking at them all again would be minutes.
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
        const Thoughts::Parts parts = thoughts.push("b\n</think>c");
        EXPECT_EQ(parts.thought.size(), begun ? pieces * breaks.size() + 1 : 0);
        EXPECT_EQ(parts.answer, begun ? "c" : std::string(pieces * breaks.size(), '\n') + "b\n</think>c");
    }
}

TEST(Thoughts, ArePresumedWhereThePromptOpensThem) {
    for (const char* open : {"<think>", "<|im_start|>assistant\n<think>\n", "<think> \n\n"})
        EXPECT_TRUE(begins_thought(open)) << open;
    for (const char* closed : {"", "\n", "<think>\n\n</think>\n\n", "<think> yes", "think>", "<|im_start|>assistant\n"})
        EXPECT_FALSE(begins_thought(closed)) << closed;
}

}  // namespace
}  // namespace rondo
