// Markdown is wrapped at 120 characters. Tables and code are as wide as they must be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

constexpr size_t characters_max = 120;

bool is_markdown(const fs::path& path) {
    return path.extension() == ".md";
}

/// Of UTF-8: each byte but those that go on with a character.
size_t characters(std::string_view line) {
    return static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_table_or_code(std::string_view line) {
    return line.starts_with("    ") || line.starts_with('\t') ||
           line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with('|');
}

bool is_fence(std::string_view line) {
    const std::string_view text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    return text.starts_with("```") || text.starts_with("~~~");
}

/// "file:line: 130 characters", for every line that is too wide.
std::vector<std::string> wide_lines(const fs::path& path, const std::string& name) {
    std::vector<std::string> found;
    std::ifstream file(path);
    bool is_fenced = false;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        if (is_fence(line)) {
            is_fenced = !is_fenced;
        } else if (!is_fenced && !is_table_or_code(line) && characters(line) > characters_max) {
            found.push_back(name + ":" + std::to_string(number) + ": " + std::to_string(characters(line)) +
                            " characters");
        }
    }
    return found;
}

std::vector<std::string> all_wide_lines(const fs::path& root) {
    std::vector<std::string_view> searched(all_folders.begin(), all_folders.end());
    searched.push_back("docs");
    std::vector<std::string> found = wide_lines(root / "README.md", "README.md");
    for (const Source& page : sources_of(root, searched, is_markdown)) {
        const std::vector<std::string> wide = wide_lines(page.path, page.name);
        found.insert(found.end(), wide.begin(), wide.end());
    }
    return found;
}

TEST(MarkdownWidth, HoldsInThisRepository) {
    EXPECT_THAT(all_wide_lines(RONDO_SOURCE_DIR), testing::IsEmpty());
}

TEST(MarkdownWidth, IsCountedInCharactersOutsideTablesAndCode) {
    const std::string wide(121, 'x');
    std::string fits;
    for (int i = 0; i < 120; ++i) fits += "é";
    const SourceTree tree;
    tree.write("README.md", fits + "\n" + wide + "\n");
    tree.write("docs/one.md", "| " + wide + " |\n\n    " + wide + "\n```\n" + wide + "\n```\n" + fits + "é\n");
    EXPECT_THAT(all_wide_lines(tree.root()),
                testing::ElementsAre("README.md:2: 121 characters", "docs/one.md:7: 121 characters"));
}

}  // namespace
}  // namespace rondo::house
