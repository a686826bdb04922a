#include <gtest/gtest.h>

#include "actors/gateway/bodies/title.hpp"

namespace rondo {
namespace {

TEST(Titles, AreTheFirstLineThatSaysSomething) {
    EXPECT_EQ(title_of(" \n\r\n\t Hello, box! \r\nMore."), "Hello, box!");
    EXPECT_EQ(title_of(""), "");
    EXPECT_EQ(title_of(" \n \n"), "");
}

TEST(Titles, AreCutBetweenCharacters) {
    std::string text, eighty;
    for (int i = 0; i < 80; ++i) eighty += "é";
    for (int i = 0; i < 1000; ++i) text += "é";
    EXPECT_EQ(title_of(eighty), eighty);
    EXPECT_EQ(title_of(text), eighty + "…");
}

TEST(Titles, HaveNothingThatIsNotPrintable) {
    EXPECT_EQ(title_of("a\x01\xFF\u202E"
                       "b"),
              "a   b");
    EXPECT_TRUE(is_title(title_of("a\xC3")));
    EXPECT_TRUE(is_title(title_of(std::string(4097, 'a') + "\xC3")));
    EXPECT_FALSE(is_title("a\xC3"));
    EXPECT_FALSE(is_title("\u3000 "));
}

}  // namespace
}  // namespace rondo
