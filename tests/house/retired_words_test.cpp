// One word for one thing: an identifier that docs/glossary.md calls retired does not come back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <sstream>

#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// What stands in backquotes in the first column of the table below "## Retired".
std::vector<std::string> retired_words(const std::string& glossary) {
    std::vector<std::string> words;
    const size_t begin = glossary.find("\n## Retired\n");
    if (begin == std::string::npos) return words;
    std::istringstream lines(glossary.substr(begin + 1));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("| `")) continue;
        words.push_back(line.substr(3, line.find('`', 3) - 3));
    }
    return words;
}

bool is_part_of_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool has_word(const std::string& text, const std::string& word) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        const bool begins = at == 0 || !is_part_of_word(text[at - 1]);
        const size_t end = at + word.size();
        if (begins && (end == text.size() || !is_part_of_word(text[end]))) return true;
    }
    return false;
}

std::vector<std::string> comebacks(const fs::path& root, const std::vector<std::string>& words) {
    std::vector<std::string> found;
    for (const Source& source : sources_of(root, all_folders, is_source_or_script)) {
        const std::string text = text_of(source.path);
        for (const std::string& word : words)
            if (has_word(text, word)) found.push_back(source.name + ": " + word);
    }
    return found;
}

TEST(RetiredWords, DoNotComeBack) {
    const auto words = retired_words(text_of(fs::path(RONDO_SOURCE_DIR) / "docs" / "glossary.md"));
    EXPECT_GE(words.size(), 5U);
    EXPECT_THAT(comebacks(RONDO_SOURCE_DIR, words), testing::IsEmpty());
}

TEST(RetiredWords, AreFoundWhereTheyStandAlone) {
    const SourceTree tree;
    tree.write("model/one.cpp", "int old_name = new_old_name + old_names;");
    tree.write("model/two.cpp", "int new_old_name = old_names;");
    tree.write("tests/model/three_test.cpp", "old_name();");
    tree.write("bench/four.py", "# old_name");
    const auto words =
        retired_words("# Words\n| `new` | b |\n## Retired\n\n| retired | say |\n|---|---|\n| `old_name` | `n` |\n");
    EXPECT_EQ(words, std::vector<std::string>{"old_name"});
    EXPECT_THAT(comebacks(tree.root(), words),
                testing::UnorderedElementsAre("model/one.cpp: old_name", "tests/model/three_test.cpp: old_name",
                                              "bench/four.py: old_name"));
}

}  // namespace
}  // namespace rondo::house
