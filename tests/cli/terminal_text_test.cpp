#include "cli/terminal_text.hpp"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

TEST(TerminalText, LeavesOutControlCharactersThatComeInTwoPieces) {
    TerminalText text;
    EXPECT_EQ(text.shown("a\xc2"), "a");
    EXPECT_EQ(text.shown("\x9b"
                         "b\xc2"),
              "b");
    EXPECT_EQ(text.shown("\xa9"), "\xc2\xa9");
    EXPECT_EQ(text.shown("\xc2\xc2\x80\tc\r\n"), "\xc2\tc\n");
}

TEST(TerminalText, FindsControlCharactersOfTwoBytes) {
    EXPECT_TRUE(begins_control_of_two("\xc2\x80 and more"));
    EXPECT_TRUE(begins_control_of_two("\xc2\x9f"));
    EXPECT_FALSE(begins_control_of_two("\xc2\xa0"));
    EXPECT_FALSE(begins_control_of_two("\xc2"));
    EXPECT_FALSE(begins_control_of_two(""));
}

}  // namespace
}  // namespace rondo::cli
