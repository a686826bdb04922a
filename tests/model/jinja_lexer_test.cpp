#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/text/jinja/lexer.hpp"

namespace rondo::jinja {
namespace {

using ::testing::ElementsAre;
using Kind = Token::Kind;

std::vector<std::string> texts(std::string_view source) {
    std::vector<std::string> out;
    for (const Token& token : tokenize(source))
        if (!token.text.empty()) out.push_back(token.text);
    return out;
}

TEST(JinjaLexer, SplitsTextTagsAndOutputs) {
    const auto tokens = tokenize("a{% if x %}b{{ y }}");
    std::vector<Kind> kinds;
    for (const Token& token : tokens) kinds.push_back(token.kind);
    EXPECT_THAT(kinds, ElementsAre(Kind::data, Kind::tag_begin, Kind::name, Kind::name, Kind::tag_end, Kind::data,
                                   Kind::output_begin, Kind::name, Kind::output_end, Kind::end));
}

TEST(JinjaLexer, KeepsTheLineOfEachToken) {
    const auto tokens = tokenize("a\n{# c\n #}{{ 'x\ny' }}\n{{ z }}");
    EXPECT_EQ(tokens[1].line, 3);      // {{
    EXPECT_EQ(tokens.back().line, 5);  // the end
}

TEST(JinjaLexer, TrimsTheLineOfABlockButNotOfAnOutput) {
    EXPECT_THAT(texts("a\n  {% x %}\n b"), ElementsAre("a\n", "x", " b"));
    EXPECT_THAT(texts("a\n  {{ x }}\n b"), ElementsAre("a\n  ", "x", "\n b"));
    EXPECT_THAT(texts("a  {% x %}  \n"), ElementsAre("a  ", "x", "  "));
    EXPECT_THAT(texts("a \n {%- x -%} \n b"), ElementsAre("a", "x", "b"));
    EXPECT_THAT(texts("  {%+ x +%}\nb"), ElementsAre("  ", "x", "\nb"));
}

TEST(JinjaLexer, ReadsNumbersStringsAndSigns) {
    EXPECT_THAT(texts("{{ 1_0 2.5 1e-3 a.0 1.x // ** <= }}"),
                ElementsAre("10", "2.5", "1e-3", "a", ".", "0", "1", ".", "x", "//", "**", "<="));
    EXPECT_THAT(texts(R"({{ "a\"b" 'c\'\n\x41\u00e9\U0001F642\101\q' }})"), ElementsAre("a\"b", "c'\nAé🙂A\\q"));
}

TEST(JinjaLexer, ClosersInsideBracketsDoNotEndATag) {
    EXPECT_THAT(texts("{{ {'a': {}}}}b"), ElementsAre("{", "a", ":", "{", "}", "}", "b"));
}

TEST(JinjaLexer, RawBlocksAndCommentsHoldNoTags) {
    EXPECT_THAT(texts("{% raw %}{{ x }}{% endraw %}y{# {{ z }} #}"), ElementsAre("{{ x }}", "y"));
}

}  // namespace
}  // namespace rondo::jinja
