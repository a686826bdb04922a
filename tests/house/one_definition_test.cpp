// Two types of one name in one namespace, defined in two files, are one type to the linker: whichever destructor it
// meets first serves both. Compilers say nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

/// The text without comments and what stands in quotes.
std::string bare(const std::string& text) {
    static const std::regex beside(R"rx(//[^\n]*|/\*[^]*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')rx");
    return std::regex_replace(text, beside, " ");
}

/// The types that a file defines directly in namespaces that have names, each with those.
std::vector<std::string> types_defined(const std::string& source) {
    static const std::regex token(
        R"rx(\bnamespace\s*([\w:]*)\s*\{|\b(?:struct|class|union|enum(?: class)?)\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{|[{}])rx");
    std::vector<std::string> within;  // what is open: a namespace's name, or "{" for anything else
    std::vector<std::string> types;
    const std::string text = bare(source);
    for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
        const std::smatch& match = *at;
        if (match[0] == "}") {
            if (!within.empty()) within.pop_back();
        } else if (match[0].str().starts_with("namespace")) {
            within.push_back(match[1].length() > 0 ? match[1].str() : "{");
        } else {
            if (match[2].matched && std::ranges::find(within, "{") == within.end()) {
                std::string name;
                for (const std::string& space : within) name += space + "::";
                types.push_back(name + match[2].str());
            }
            within.push_back("{");
        }
    }
    return types;
}

/// "rondo::X: cli/a.hpp cli/b.hpp" for each type that more than one file below `root` defines.
std::vector<std::string> defined_twice(const fs::path& root) {
    std::map<std::string, std::set<std::string>> files_of;
    for (const Source& source : sources_of(root)) {
        std::ostringstream text;
        text << std::ifstream(source.path).rdbuf();
        for (const std::string& type : types_defined(text.str())) files_of[type].insert(source.name);
    }
    std::vector<std::string> found;
    for (const auto& [type, files] : files_of) {
        if (files.size() < 2) continue;
        std::string line = type + ":";
        for (const std::string& file : files) line += " " + file;
        found.push_back(line);
    }
    return found;
}

TEST(OneDefinition, HoldsInThisRepository) {
    EXPECT_THAT(defined_twice(RONDO_SOURCE_DIR), testing::IsEmpty());
}

TEST(OneDefinition, NamesTheTypeAndItsFiles) {
    const SourceTree tree;
    tree.write("cli/eval/a.hpp", "namespace rondo::cli {\nstruct Question final : Base {\n int x; };\n}\n");
    tree.write("cli/eval/b.cpp", "namespace rondo {\nnamespace cli {\nclass Question { void f() {} };\n}\n}\n");
    EXPECT_THAT(defined_twice(tree.root()),
                testing::ElementsAre("rondo::cli::Question: cli/eval/a.hpp cli/eval/b.cpp"));
}

TEST(OneDefinition, AllowsOtherNamespacesNestedTypesDeclarationsAndFilesOfTheirOwn) {
    const SourceTree tree;
    tree.write("model/a.hpp", "namespace rondo {\nstruct A { struct B { int x; }; };\nstruct B;\n}  // struct A {\n");
    tree.write("model/b.cpp", "namespace rondo {\nnamespace { struct A { int x = '{'; }; }\nstruct B { int x; };\n}\n");
    tree.write("model/c.cpp", "namespace rondo::c {\nstruct A {};\nconst char* text = \"struct B {\";\n}\n");
    tree.write("model/d.cpp", "namespace rondo {\nstruct A::B {};\nB f(struct B* b) { return *b; }\n}\n");
    EXPECT_THAT(defined_twice(tree.root()), testing::IsEmpty());
}

}  // namespace
}  // namespace rondo::house
