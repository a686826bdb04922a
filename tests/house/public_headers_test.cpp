// What is installed for hosts is closed: a public header includes, of this tree, only public headers. That each
// compiles alone is seen where the installed package is built against (install_test.cmake).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <vector>

#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> names;
    std::istringstream in(list);
    for (std::string name; std::getline(in, name, ',');) names.push_back(name);
    return names;
}

/// "header: includes X" for each header of this tree that a public one includes though it is none.
std::vector<std::string> leaks(const fs::path& root, const std::vector<std::string>& headers) {
    static const std::regex include(R"rx(^\s*#\s*include\s*(?:"([^"]+)"|<(?:rondo/)?(\w+/[^>]+)>))rx");
    std::vector<std::string> found;
    for (const std::string& header : headers) {
        std::ifstream file(root / header);
        if (!file) found.push_back(header + ": is not there");
        std::string line;
        while (std::getline(file, line)) {
            std::smatch match;
            if (!std::regex_search(line, match, include)) continue;
            const std::string target = match[1].matched ? match[1].str() : match[2].str();
            const bool ours = match[1].matched || fs::exists(root / target);
            if (ours && std::ranges::find(headers, target) == headers.end())
                found.push_back(header + ": includes " + target);
        }
    }
    return found;
}

TEST(PublicHeaders, IncludeOnlyPublicHeaders) {
    const std::vector<std::string> headers = split(RONDO_PUBLIC_HEADERS);
    EXPECT_THAT(headers, testing::Contains("actors/engine.hpp"));
    EXPECT_THAT(leaks(RONDO_SOURCE_DIR, headers), testing::IsEmpty());
}

TEST(PublicHeaders, ALeakIsNamed) {
    const SourceTree tree;
    tree.write("actors/engine.hpp",
               "#include <caf/all.hpp>\n#include \"actors/ask.hpp\"\n#include \"actors/router.hpp\"\n");
    tree.write("actors/ask.hpp", "#  include <rondo/actors/router.hpp>\n");
    tree.write("actors/router.hpp", "");
    EXPECT_THAT(leaks(tree.root(), {"actors/engine.hpp", "actors/ask.hpp", "actors/front.hpp"}),
                testing::ElementsAre("actors/engine.hpp: includes actors/router.hpp",
                                     "actors/ask.hpp: includes actors/router.hpp", "actors/front.hpp: is not there"));
}

}  // namespace
}  // namespace rondo::house
