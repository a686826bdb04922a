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
    EXPECT_EQ(text.shown("\xc2\xc2\x80\tc\r\n"), "\tc\n");
}

TEST(TerminalText, JoinsNoNeighboursToAControlCharacter) {
    EXPECT_EQ(TerminalText().shown("a\xc2\x01\x9b"
                                   "b"),
              "ab");
    EXPECT_EQ(TerminalText().shown("\xc2\xc2\x9b\x9b"), "");
    EXPECT_EQ(TerminalText().shown("\x9b"), "");
}

TEST(TerminalText, LeavesWholeCharactersAsTheyAre) {
    const std::string all = "é — ab \xf0\x9f\x98\x80\xe2\x9b\x93\xc3\x9b";
    EXPECT_EQ(TerminalText().shown(all), all);
    TerminalText bytes;
    std::string shown;
    for (const char byte : all) shown += bytes.shown({&byte, 1});
    EXPECT_EQ(shown, all);
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
