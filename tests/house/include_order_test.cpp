#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <regex>
#include <string_view>
#include <vector>

#include "tests/house/source_tree.hpp"

namespace rondo::house {
namespace {

/// Why a file of folders[own] must not include `target`; empty when it may.
std::string objection(size_t own, const std::string& target) {
    const std::string top = target.substr(0, target.find('/'));
    if (top == "caf" && folders[own] != "actors" && folders[own] != "cli") return "CAF belongs in actors/ and cli/";
    for (size_t later = own + 1; later < folders.size(); ++later) {
        if (top == folders[later]) return std::string(folders[own]) + "/ stands before " + top + "/";
    }
    return {};
}

/// The folders of model/ stand in an order of their own. Files directly in model/ may include all of them.
constexpr std::array<std::string_view, 5> model_folders{"model/files/", "model/text/", "model/format/", "model/tools/",
                                                        "model/attention/"};

size_t place_in_model(std::string_view name) {
    size_t place = 0;
    while (place < model_folders.size() && !name.starts_with(model_folders[place])) ++place;
    return place;
}

/// Why a file of model/ must not include `target`, another one of model/; empty when it may.
std::string objection_in_model(const std::string& name, const std::string& target) {
    if (!name.starts_with("model/") || !target.starts_with("model/")) return {};
    const size_t own = place_in_model(name), later = place_in_model(target);
    if (later <= own) return {};
    const std::string_view what = later < model_folders.size() ? model_folders[later] : "what lies in model/ itself";
    return std::string(model_folders[own]) + " stands before " + std::string(what);
}

/// "file:line: includes X: why not", for every include against the order below `root`.
std::vector<std::string> violations(const fs::path& root) {
    static const std::regex include(R"rx(^\s*#\s*include\s*["<](?:rondo/)?(\w+/[^">]+)[">])rx");
    std::vector<std::string> found;
    for (const Source& source : sources_of(root)) {
        std::ifstream file(source.path);
        std::string line;
        for (int number = 1; std::getline(file, line); ++number) {
            std::smatch match;
            if (!std::regex_search(line, match, include)) continue;
            std::string why = objection(source.folder, match[1]);
            if (why.empty()) why = objection_in_model(source.name, match[1]);
            if (why.empty()) continue;
            found.push_back(source.name + ":" + std::to_string(number) + ": includes " + match[1].str() + ": " + why);
        }
    }
    std::ranges::sort(found);
    return found;
}

TEST(IncludeOrder, HoldsInThisRepository) {
    EXPECT_THAT(violations(RONDO_SOURCE_DIR), testing::IsEmpty());
}

TEST(IncludeOrder, NamesFileAndLineOfALaterFolder) {
    const SourceTree tree;
    tree.write("kernels/cpu/gemm.cpp", "#include <memory>\n\n#include \"model/files/spec.hpp\"\n");
    tree.write("config/settings.hpp", "#  include <rondo/kernels/ops.hpp>\n");
    EXPECT_THAT(
        violations(tree.root()),
        testing::ElementsAre("config/settings.hpp:1: includes kernels/ops.hpp: config/ stands before kernels/",
                             "kernels/cpu/gemm.cpp:3: includes model/files/spec.hpp: kernels/ stands before model/"));
}

TEST(IncludeOrder, HoldsBetweenTheFoldersOfModelToo) {
    const SourceTree tree;
    tree.write("model/text/jinja/lexer.cpp",
               "#include \"model/files/strict_json.hpp\"\n#include \"model/model.hpp\"\n");
    tree.write("model/files/gguf.hpp", "#include \"model/text/tokenizer.hpp\"\n");
    tree.write("model/model.hpp", "#include \"model/text/tokenizer.hpp\"\n");
    EXPECT_THAT(violations(tree.root()),
                testing::ElementsAre(
                    "model/files/gguf.hpp:1: includes model/text/tokenizer.hpp: model/files/ stands before model/text/",
                    "model/text/jinja/lexer.cpp:2: includes model/model.hpp: model/text/ stands before what lies in "
                    "model/ itself"));
}

TEST(IncludeOrder, KeepsCafOutOfTheEngine) {
    const SourceTree tree;
    tree.write("model/transformer.hpp", "#include <caf/all.hpp>\n");
    tree.write("actors/session.cpp", "#include <caf/all.hpp>\n");
    EXPECT_THAT(violations(tree.root()),
                testing::ElementsAre("model/transformer.hpp:1: includes caf/all.hpp: CAF belongs in actors/ and cli/"));
}

TEST(IncludeOrder, AllowsEarlierFoldersAndTheFolderItself) {
    const SourceTree tree;
    tree.write("model/transformer.cpp", "#include \"config/result.hpp\"\n#include \"model/files/spec.hpp\"\n");
    tree.write("kernels/cpu/notes.txt", "#include \"cli/main.hpp\"\n");
    EXPECT_THAT(violations(tree.root()), testing::IsEmpty());
}

}  // namespace
}  // namespace rondo::house
