#include "model/text/stop_strings.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

struct Outcome {
    std::string text;
    bool stopped;
    bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
    return out << '"' << outcome.text << "\" stopped " << outcome.stopped;
}

/// Reads byte by byte and cuts where the first stop is complete, the longer of two.
Outcome naive(const std::string& text, const std::vector<std::string>& stops) {
    for (size_t end = 1; end <= text.size(); ++end) {
        size_t longest = 0;
        for (const std::string& stop : stops)
            if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
        if (longest > 0) return {text.substr(0, end - longest), true};
    }
    return {text, false};
}

/// Pieces end after byte i where bit i of `cuts` is set.
Outcome in_pieces(const std::string& text, const std::vector<std::string>& stops, uint32_t cuts) {
    StopStrings stop_strings(stops);
    Outcome outcome{{}, false};
    size_t begin = 0;
    for (size_t i = 0; i < text.size() && !outcome.stopped; ++i) {
        if (i + 1 < text.size() && (cuts >> i & 1) == 0) continue;
        outcome.text += stop_strings.push(std::string_view(text).substr(begin, i + 1 - begin), outcome.stopped);
        begin = i + 1;
    }
    outcome.text += stop_strings.finish();
    return outcome;
}

TEST(StopStrings, GiveTheSameForEverySplitOfTheText) {
    struct Case {
        std::string text;
        std::vector<std::string> stops;
    };
    const Case cases[] = {
        {"hello world", {}},
        {"hello world", {"wor"}},
        {"hello world", {"world!"}},
        {"hello world", {"o", "hello"}},
        {"aaabaaac", {"aaac"}},
        {"aaaaaaaaab", {"aab"}},
        {"abababac", {"abac", "babac"}},
        {"xabcdy", {"abcd", "bc"}},
        {"xabcdy", {"bcd", "abcd", "cd"}},
        {"end<|im_end|>", {"<|im_end|>", "<|im_"}},
        {"a\n\nb\n\n", {"\n\n"}},
        {"né à Łódź", {"ź"}},
        {"né à Łódź", {"Łó"}},
        {"caf\u00e8 caf\u00e9", {"\u00e9"}},
        {"日本語だ", {"語"}},
        {"wait 🙂🙃", {"🙃"}},
        {"same", {"same"}},
        {"s", {"s"}},
    };
    for (const Case& test : cases) {
        const Outcome expected = naive(test.text, test.stops);
        ASSERT_LE(test.text.size(), 18U);
        for (uint32_t cuts = 0; cuts < 1U << (test.text.size() - 1); ++cuts)
            ASSERT_EQ(in_pieces(test.text, test.stops, cuts), expected) << test.text << " cuts " << cuts;
    }
}

TEST(StopStrings, TheStopThatIsCompleteFirstWins) {
    EXPECT_EQ(in_pieces("xabcd", {"abcd", "bc"}, 0), (Outcome{"xa", true}));
    EXPECT_EQ(in_pieces("xabc", {"bc", "abc"}, 0), (Outcome{"x", true})) << "of two complete at once, the longer";
    EXPECT_EQ(in_pieces("xbcab", {"ab", "bc"}, 0), (Outcome{"x", true}));
}

TEST(StopStrings, HoldBackOnlyWhatCouldBecomeAStop) {
    StopStrings stops({"</s>", "stop"});
    bool stopped = false;
    EXPECT_EQ(stops.push("a <", stopped), "a ");
    EXPECT_EQ(stops.push("/b", stopped), "</b");
    EXPECT_EQ(stops.push("st", stopped), "");
    EXPECT_EQ(stops.push("st", stopped), "st");
    EXPECT_EQ(stops.push("opera", stopped), "");
    EXPECT_TRUE(stopped);
    EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, GiveOutNothingAfterTheStop) {
    StopStrings stops({"."});
    bool stopped = false;
    EXPECT_EQ(stops.push("a.b", stopped), "a");
    stopped = false;
    EXPECT_EQ(stops.push("c", stopped), "");
    EXPECT_TRUE(stopped);
    EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, HoldBackWholeUtf8Characters) {
    StopStrings stops({"\u00e9t\u00e9"});
    bool stopped = false;
    EXPECT_EQ(stops.push("\u00e8", stopped), "\u00e8") << "shares its first byte with the stop, but is whole";
    EXPECT_EQ(stops.push("\u00e9", stopped), "");
    EXPECT_EQ(stops.push("\u00e8", stopped), "\u00e9\u00e8");
}

TEST(StopStrings, CheckNamesTheRange) {
    EXPECT_TRUE(StopStrings::check({}));
    EXPECT_TRUE(StopStrings::check(std::vector<std::string>(16, std::string(256, 'x'))));
    EXPECT_EQ(StopStrings::check(std::vector<std::string>(17, "x")).error().message,
              "stop: 17 strings, must be 0 to 16");
    EXPECT_EQ(StopStrings::check(std::vector<std::string>{"x", ""}).error().message,
              "stop[1]: is 0 bytes, must be 1 to 256");
    EXPECT_EQ(StopStrings::check(std::vector<std::string>{std::string(257, 'x')}).error().message,
              "stop[0]: is 257 bytes, must be 1 to 256");
}

/// What is complete before the answer may end is text; what is completed later stops, wherever it began.
TEST(StopStrings, StopNothingThatIsCompleteWhileTheyAreNotArmed) {
    bool stopped = false;
    StopStrings stops({"END"});
    EXPECT_EQ(stops.push("aENDb", stopped, false), "aENDb");
    EXPECT_EQ(stops.push("cEN", stopped, false), "c");
    EXPECT_FALSE(stopped);
    EXPECT_EQ(stops.push("Dx", stopped), "");
    EXPECT_TRUE(stopped);

    StopStrings nested({"ab", "xabc"});  // the longer one is still possible, so the shorter one is held
    stopped = false;
    EXPECT_EQ(nested.push("xab", stopped, false), "");
    EXPECT_EQ(nested.push("q", stopped), "xabq");
    EXPECT_FALSE(stopped);
    EXPECT_EQ(nested.push("ab", stopped), "");
    EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace rondo
