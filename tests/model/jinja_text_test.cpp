#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/text/jinja/text.hpp"

namespace rondo::jinja {
namespace {

using ::testing::ElementsAre;

TEST(JinjaText, CountsCodePointsAndBadBytesAsCharacters) {
    EXPECT_EQ(count_characters(""), 0u);
    EXPECT_EQ(count_characters("aé日🙂"), 4u);
    EXPECT_EQ(count_characters("a\xff\xe6\x97z"), 5u);
    EXPECT_THAT(characters("é\x80x"), ElementsAre("é", "\x80", "x"));
}

TEST(JinjaText, StripsTheSpacesOfUnicodeButNoHalfCharacter) {
    EXPECT_EQ(strip("\u00a0\u3000 x\u2028\x1c ", Side::both), "x");
    EXPECT_EQ(strip(" x ", Side::left), "x ");
    EXPECT_EQ(strip(" x ", Side::right), " x");
    EXPECT_EQ(strip("\xa0x\x85", Side::both), "\xa0x\x85");
    EXPECT_EQ(strip("éaé", Side::both, "é"), "a");
    EXPECT_EQ(strip("日本", Side::right, "\xac"), "日本");
    EXPECT_EQ(strip("   ", Side::both), "");
}

TEST(JinjaText, SplitsAsPython) {
    EXPECT_THAT(split_space("  a \u3000b  c ", no_limit), ElementsAre("a", "b", "c"));
    EXPECT_THAT(split_space("  a b  c ", 1), ElementsAre("a", "b  c "));
    EXPECT_THAT(split_space("  a b ", 0), ElementsAre("a b "));
    EXPECT_THAT(split_space(" ", no_limit), ElementsAre());
    EXPECT_THAT(split("a--b--", "--", no_limit), ElementsAre("a", "b", ""));
    EXPECT_THAT(split("a--b--", "--", 1), ElementsAre("a", "b--"));
    EXPECT_THAT(split("", ",", no_limit), ElementsAre(""));
    EXPECT_THAT(split_lines("a\r\nb\n\nc\u2028d\r"), ElementsAre("a", "b", "", "c", "d"));
    EXPECT_THAT(split_lines(""), ElementsAre());
}

TEST(JinjaText, MapsCase) {
    EXPECT_EQ(upper("straße é ǆ"), "STRASSE É Ǆ");
    EXPECT_EQ(lower("ÀB"), "àb");
    EXPECT_EQ(capitalize("ǆ ABC"), "ǅ abc");
    EXPECT_EQ(title("they're 2nd àb"), "They'Re 2Nd Àb");
    EXPECT_EQ(title_filter("they're 2nd (àb)"), "They're 2nd (Àb)");
    EXPECT_EQ(upper("a\xff"), "A\xff");
}

TEST(JinjaText, CountsOccurrencesWithoutOverlap) {
    EXPECT_EQ(count_occurrences("aaaa", "aa"), 2u);
    EXPECT_EQ(count_occurrences("é", ""), 2u);
    EXPECT_EQ(count_occurrences("", "x"), 0u);
}

}  // namespace
}  // namespace rondo::jinja
