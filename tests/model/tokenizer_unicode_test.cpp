#include <gtest/gtest.h>

#include "model/text/unicode.hpp"

namespace rondo::unicode {
namespace {

std::string repaired(std::string_view bytes) {
    std::string out;
    EXPECT_EQ(repair(bytes, true, out), bytes.size());
    EXPECT_TRUE(is_valid(out));
    return out;
}

TEST(TokenizerUnicode, ReplacesEachMaximalSubpart) {
    EXPECT_EQ(repaired("a\xF1\x80\x80\xE1\x80\xC2"
                       "b\x80"
                       "c\x80\xBF"
                       "d"),
              "a\uFFFD\uFFFD\uFFFD"
              "b\uFFFD"
              "c\uFFFD\uFFFD"
              "d");
    EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                       "A"),
              "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
    EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(repaired("日\xE6\x97"), "日\uFFFD");
}

TEST(TokenizerUnicode, EncodesAndDecodesEveryCharacter) {
    for (char32_t value = 0; value < 0x110000; ++value) {
        if (value >= 0xD800 && value < 0xE000) continue;
        std::string text;
        append(text, value);
        const Decoded back = decode(text, 0);
        ASSERT_EQ(back.kind, Decoded::Kind::valid) << uint32_t(value);
        ASSERT_EQ(back.value, value);
        ASSERT_EQ(back.bytes, text.size());
        ASSERT_EQ(length_of(text[0]), text.size());
    }
}

TEST(TokenizerUnicode, NormalFormsOfUax15) {
    const auto form = [](std::string_view text, Form f) { return *normalize(text, f); };
    EXPECT_EQ(form("\u1E9B\u0323", Form::nfc), "\u1E9B\u0323");
    EXPECT_EQ(form("\u1E9B\u0323", Form::nfd), "\u017F\u0323\u0307");
    EXPECT_EQ(form("\u1E9B\u0323", Form::nfkc), "\u1E69");
    EXPECT_EQ(form("\u1E9B\u0323", Form::nfkd), "s\u0323\u0307");
    EXPECT_EQ(form("\u1100\u1161\u11A8", Form::nfc), "\uAC01");
    EXPECT_EQ(form(std::string_view("a\0e\u0301", 5), Form::nfc), std::string("a\0é", 4));
}

TEST(TokenizerUnicode, LongRunsOfMarksAreSortedFast) {
    std::string text = "a";
    for (int i = 0; i < 200000; ++i) text += "\u0301\u0323";
    const auto sorted = normalize(text, Form::nfd);
    ASSERT_TRUE(sorted);
    EXPECT_EQ(sorted->size(), text.size());
    EXPECT_EQ(sorted->substr(0, 5), "a\u0323\u0323");
    EXPECT_EQ(sorted->substr(sorted->size() - 4), "\u0301\u0301");
}

TEST(TokenizerUnicode, LowercasesCharacterByCharacter) {
    EXPECT_EQ(lowercase("ÀΣİǅ日A"), "àσi\u0307ǆ日a");
}

TEST(TokenizerUnicode, KnowsItsClasses) {
    for (const char32_t c : {U' ', U'\t', U'\u0085', U'\u00A0', U'\u3000'})
        EXPECT_TRUE(is_whitespace(c)) << uint32_t(c);
    for (const char32_t c : {U'\u180E', U'\u200B', U'_', U'\x1C'}) EXPECT_FALSE(is_whitespace(c)) << uint32_t(c);
    for (const char32_t c : {U'!', U'$', U'_', U'~', U'。', U'«'}) EXPECT_TRUE(is_punctuation(c)) << uint32_t(c);
    for (const char32_t c : {U'a', U'1', U' ', U'€', U'\x7F'}) EXPECT_FALSE(is_punctuation(c)) << uint32_t(c);
    for (const char32_t c : {U'1', U'²', U'Ⅷ', U'१'}) EXPECT_TRUE(is_numeric(c)) << uint32_t(c);
    for (const char32_t c : {U'a', U'_', U'\u0301', U'\u200D', U'ⓐ', U'日'}) EXPECT_TRUE(is_word(c)) << uint32_t(c);
    for (const char32_t c : {U'-', U' ', U'²', U'€'}) EXPECT_FALSE(is_word(c)) << uint32_t(c);
}

}  // namespace
}  // namespace rondo::unicode
