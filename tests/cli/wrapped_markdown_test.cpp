#include "cli/measure/eval/wrapped_markdown.hpp"

#include <gtest/gtest.h>

namespace rondo::cli::eval {
namespace {

TEST(WrappedMarkdown, BreaksParagraphsAtSpacesAndCountsCharacters) {
    std::string half;
    for (int i = 0; i < 59; ++i) half += "é";
    EXPECT_EQ(wrapped_markdown(half + "! " + half + "\n"), half + "! " + half + "\n");  // 120
    EXPECT_EQ(wrapped_markdown(half + "! " + half + "!\n"), half + "!\n" + half + "!\n");
    EXPECT_EQ(wrapped_markdown(half + " " + half + " one two"), half + " " + half + "\none two");
}

TEST(WrappedMarkdown, GoesOnTwoSpacesInWithAListsItem) {
    const std::string word(70, 'w');
    EXPECT_EQ(wrapped_markdown("- " + word + " " + word + "\n- " + word), "- " + word + "\n  " + word + "\n- " + word);
}

TEST(WrappedMarkdown, LeavesTablesHeadingsEmptyLinesAndWideWordsAlone) {
    const std::string wide(130, 'x');
    const std::string table = "| a " + wide + " |\n|---|\n";
    const std::string page = "# a " + wide + "\n\n" + table + "\n" + wide + "\n";
    EXPECT_EQ(wrapped_markdown(page), page);
    EXPECT_EQ(wrapped_markdown(""), "");
}

}  // namespace
}  // namespace rondo::cli::eval
