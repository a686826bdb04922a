// What pages say of methods is what there is: every method has its line, and no line is of a method that is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <sstream>

#include "config/method_rows.hpp"
#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

/// A list's item that goes on two spaces in is one line.
std::vector<std::string> lines_of(const std::string& page) {
    std::ifstream file(fs::path(RONDO_SOURCE_DIR) / page);
    EXPECT_TRUE(file) << page;
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        const bool goes_on = line.starts_with("  ") && !lines.empty() && lines.back().starts_with("- ");
        goes_on ? lines.back().append(line, 1) : lines.emplace_back(line);
    }
    return lines;
}

std::set<std::string> names_of(std::span<const MethodRow> rows) {
    std::set<std::string> names;
    for (const MethodRow& row : rows.subspan(1)) names.emplace(row.name);  // without dense
    return names;
}

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, '|');) cells.push_back(cell);
    return cells;
}

struct TableRow {
    std::set<std::string> methods = {};  ///< what stands in backquotes in the first column
    std::string last = {};               ///< column
};

/// The rows of the table whose first column is headed "method".
std::vector<TableRow> table_of_methods(const std::string& page) {
    std::vector<TableRow> table;
    bool inside = false;
    for (const std::string& line : lines_of(page)) {
        if (line.starts_with("| method |")) {
            inside = true;
        } else if (!line.starts_with("|")) {
            inside = false;
        } else if (inside && !line.starts_with("|---")) {
            const auto cells = cells_of(line);
            TableRow& row = table.emplace_back(TableRow{.last = cells.back()});
            std::istringstream names(cells[1]);
            std::string name;
            for (bool quoted = false; std::getline(names, name, '`'); quoted = !quoted) {
                if (quoted) row.methods.insert(name);
            }
        }
    }
    return table;
}

std::set<std::string> methods_in(const std::vector<TableRow>& table) {
    std::set<std::string> all;
    for (const TableRow& row : table)
        for (const std::string& name : row.methods) EXPECT_TRUE(all.insert(name).second) << name << " twice";
    return all;
}

TEST(MethodPages, TheTablesOfPoliciesHaveEachMethodOnce) {
    const std::string policies = "model/attention/policies/";
    EXPECT_EQ(methods_in(table_of_methods(policies + "README.md")), names_of(prefill_method_rows));
    EXPECT_EQ(methods_in(table_of_methods(policies + "decode_selection/README.md")), names_of(decode_method_rows));
    EXPECT_EQ(methods_in(table_of_methods(policies + "round_selection/README.md")), names_of(round_method_rows));
}

TEST(MethodPages, TheTableOfDecodeMethodsSaysWhichGiveKeysUp) {
    for (const TableRow& row : table_of_methods("model/attention/policies/decode_selection/README.md"))
        for (const std::string& name : row.methods) {
            const MethodRow* const method = find_row(name);
            ASSERT_NE(method, nullptr) << name;
            EXPECT_EQ(row.last, method->gives_up ? " yes " : " no ") << name;
        }
}

/// The method that a line of docs/methods.md is about: the first word of a table's row or of a list's item.
std::string method_of(const std::string& line) {
    if (!line.starts_with("| ") && !line.starts_with("- ")) return {};
    size_t end = 2;
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
    const std::string word = line.substr(2, end - 2);
    const bool is_head = word == "method" || word == "less";
    return is_head ? std::string() : word;
}

TEST(MethodPages, TheReportHasALineOfEveryMethodAndOfNoOther) {
    std::set<std::string> known = names_of(prefill_method_rows), told;
    known.merge(names_of(decode_method_rows));
    known.merge(names_of(round_method_rows));
    for (const std::string& line : lines_of("docs/methods.md")) {
        if (const std::string method = method_of(line); !method.empty()) told.insert(method);
    }
    for (const std::string beside : {"dense", "no_history", "rondo"})
        EXPECT_EQ(told.erase(beside), 1U) << beside;  // contestants that are no row
    EXPECT_EQ(told, known) << "`rondo eval --report` prints docs/methods.md";
}

TEST(MethodPages, TheReportSaysHowMethodsDifferFromTheirAuthorsCode) {
    const auto lines = lines_of("docs/methods.md");
    for (const std::span<const MethodRow> rows : method_rows) {
        for (const MethodRow& row : rows) {
            if (row.differs.empty()) continue;
            const std::string line = "- " + std::string(row.name) + ": " + std::string(row.differs) + ".";
            EXPECT_THAT(lines, ::testing::Contains(line));
        }
    }
}

}  // namespace
}  // namespace rondo::house
