#include "model/text/tokenizer_regex.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

/// What a pattern matches in a text, between bars; or the error.
std::string matches(std::string_view pattern, std::string_view text) {
    const auto regex = TokenizerRegex::compile(pattern);
    if (!regex) return "error: " + regex.error().message;
    std::vector<ByteRange> found;
    TokenizerRegex::Finder finder(*regex, text.size());
    if (const Status status = finder.find_all(text, found); !status) return "error: " + status.error().message;
    std::string out = "|";
    for (const auto& range : found) out += std::string(text.substr(range.begin, range.end - range.begin)) + "|";
    return out;
}

// The expected matches are what Oniguruma gives, asked through Hugging Face's tokenizers.
TEST(TokenizerRegex, MatchesAsOnigurumaDoes) {
    EXPECT_EQ(matches(R"(\p{N}{1,3}+)", "a1234567b"), "|1234567|");
    EXPECT_EQ(matches(R"(\p{N}{1,3})", "a1234567b"), "|123|456|7|");
    EXPECT_EQ(matches(R"((?:ab){1,2}+)", "ababab"), "|ababab|");
    EXPECT_EQ(matches(R"(a{,2})", "aaab"), "|aa|a||");
    EXPECT_EQ(matches(R"(\s)", "a\u0085b\u180ec\u00a0"), "|\u0085|\u00a0|");
    EXPECT_EQ(matches(R"(\h+)", "a gZ f"), "|a|f|");
    EXPECT_EQ(matches(R"(\v)", "a\n\u000bc"), "|\u000b|");
    EXPECT_EQ(matches(R"(\w+)", "e\u0301 x ² ½ Ⅷ ⓐ\u200d १ ৴"), "|e\u0301|x|²|½|Ⅷ|ⓐ|१|");
    EXPECT_EQ(matches(R"([\w]+)", "e\u0301 x ² ½ Ⅷ"), "|e\u0301|x|Ⅷ|");
    EXPECT_EQ(matches(R"(a$)", "a\na\nb"), "|a|a|");
    EXPECT_EQ(matches(R"(^b)", "b\nab\nb"), "|b|b|");
    EXPECT_EQ(matches(R"((?m:a.b))", "a\nb"), "|a\nb|");
    EXPECT_EQ(matches(R"(a.b)", "a\nb a\rb"), "|a\rb|");
    EXPECT_EQ(matches(R"((?i:'s))", "'S 'ſ 's"), "|'S|'ſ|'s|");
    EXPECT_EQ(matches(R"(x|(?i)ab|c)", "AB C x X"), "|AB|C|x|");
    EXPECT_EQ(matches(R"(\p{Han}+)", "漢、々〇"), "|漢|々〇|");
    EXPECT_EQ(matches(R"(\p{Letter}+)", "ab1c"), "|ab|c|");
    EXPECT_EQ(matches(R"(\p{^L}+)", "ab1c"), "|1|");
    EXPECT_EQ(matches(R"(\s++$|\S)", "a  "), "|a|  |");
    EXPECT_EQ(matches(R"(\x41{1,2}+)", "AAAb"), "|AAA|");
    EXPECT_EQ(matches(R"(a{x}|\u0062|\x41)", "a{x}bA"), "|a{x}|b|A|");
}

TEST(TokenizerRegex, AnEmptyMatchThatTouchesTheLastOneIsNone) {
    EXPECT_EQ(matches("x*", "axxb"), "||xx||");
    EXPECT_EQ(matches("", "é"), "|||");
    EXPECT_EQ(matches(R"(\b)", "ab"), "|||");
}

TEST(TokenizerRegex, RefusesWhatWouldMeanSomethingElse) {
    for (const char* pattern :
         {"[a-c&&[^b]]", "[a[b]]", "[[:alpha:]]", R"([\W])", R"(\Qa\E)", R"(\1)", "(*UTF)a", "(?s:.)", "(?P<n>a)",
          "a(?i)b", "(?~a)", R"(\pL)", R"(\xe9)", "(a", "a)", "[a", "\\", R"(\C)", R"(\p{Nothing})"}) {
        const auto regex = TokenizerRegex::compile(pattern);
        ASSERT_FALSE(regex) << pattern;
        EXPECT_EQ(regex.error().message.find('\n'), std::string::npos);
    }
}

TEST(TokenizerRegex, APatternThatExplodesIsAnErrorNotAHang) {
    for (const char* pattern : {"(a+)+[bc]", "(?:a|aa)+[bc]", "(a*)*[bc]", "a*a*a*a*a*[bc]", "(?:a+?)+?[bc]"})
        EXPECT_NE(matches(pattern, std::string(5000, 'a')).find("takes too long"), std::string::npos) << pattern;
}

TEST(TokenizerRegex, APatternThatReadsTheRestFromEveryPlaceIsAnErrorToo) {
    // Few steps as PCRE2 counts them: its limit alone would let these run for hours on a long text.
    const std::string text(200'000, 'a');
    EXPECT_NE(matches("(a{1,60000})[bc]", text).find("takes too long"), std::string::npos);
    EXPECT_NE(matches("(?:(?=a*b)|a)+[bc]", text.substr(0, 20'000)).find("takes too long"), std::string::npos);
}

TEST(TokenizerRegex, MatchesDoNotDependOnWhereTheyLieInTheText) {
    // The text is searched piece by piece, which no match may show: here one begins at every distance from an edge.
    for (const char* pattern : {R"(\p{L}+(?= \d)|\s+(?!\S)|\s+|\d)", R"((?<=é )\d+\b)", R"(\X\R)", R"(é+$)"}) {
        std::string expected;
        for (size_t before = 0; before < 300; ++before) {
            const std::string found =
                matches(pattern, std::string(before, '.') + "日éé 12  \r\ne\u0301\n" + std::string(600, '.') + "éé\n");
            if (before == 0) expected = found;
            ASSERT_EQ(found, expected) << pattern << " behind " << before;
        }
        EXPECT_NE(expected, "|") << pattern;
    }
    // Lines that end at an edge.
    for (const size_t letters : {126U, 127U, 253U, 254U, 255U, 256U, 300U}) {
        const std::string line(letters, 'x'), text = line + "\n" + line;
        EXPECT_EQ(matches(R"(x+\n^)", text), "|" + line + "\n|");
        EXPECT_EQ(matches(R"(x+\n^x)", text), "|" + line + "\nx|");
        EXPECT_EQ(matches(R"(x+\n(?!^))", text), "|");
        EXPECT_EQ(matches(R"(x+\n(?!^))", line + "\n"), "|" + line + "\n|");
    }
    for (const size_t letters : {127U, 128U, 255U, 256U, 257U, 1000U}) {
        const std::string word(letters, 'x'), accents = "é" + word;
        EXPECT_EQ(matches(R"(\p{L}+)", word + " " + accents), "|" + word + "|" + accents + "|");
        EXPECT_EQ(matches(R"(x+\z|.\b)", accents), "|" + word + "|");
    }
}

TEST(TokenizerRegex, LongRunsOfSpacesStayWithinTheBound) {
    const char* pattern = R"([^\r\n\p{L}\p{N}]?\p{L}+|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const std::string spaces(1 << 20, ' ');
    EXPECT_EQ(matches(pattern, spaces + " x"), "|" + spaces + "| x|");
}

}  // namespace
}  // namespace rondo
