#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

// A folder may include only what stands to its left.
constexpr std::array<std::string_view, 7> folders = {"config", "kernels", "transport", "memory",
                                                     "model",  "actors",  "cli"};

bool is_source(const fs::path& path) {
    constexpr std::array<std::string_view, 6> endings = {".hpp", ".cpp", ".cuh", ".cu", ".h", ".inc"};
    return std::ranges::find(endings, path.extension().string()) != endings.end();
}

/// Why a file of folders[own] must not include `target`; empty when it may.
std::string objection(size_t own, const std::string& target) {
    const std::string top = target.substr(0, target.find('/'));
    if (top == "caf" && folders[own] != "actors" && folders[own] != "cli") return "CAF belongs in actors/ and cli/";
    for (size_t later = own + 1; later < folders.size(); ++later) {
        if (top == folders[later]) return std::string(folders[own]) + "/ stands before " + top + "/";
    }
    return {};
}

/// "file:line: includes X: why not", for every include against the order below `root`.
std::vector<std::string> violations(const fs::path& root) {
    static const std::regex include(R"rx(^\s*#\s*include\s*["<](?:rondo/)?(\w+/[^">]+)[">])rx");
    std::vector<std::string> found;
    for (size_t own = 0; own < folders.size(); ++own) {
        if (!fs::exists(root / folders[own])) continue;
        for (const auto& entry : fs::recursive_directory_iterator(root / folders[own])) {
            if (!entry.is_regular_file() || !is_source(entry.path())) continue;
            std::ifstream file(entry.path());
            std::string line;
            for (int number = 1; std::getline(file, line); ++number) {
                std::smatch match;
                if (!std::regex_search(line, match, include)) continue;
                const std::string why = objection(own, match[1]);
                if (why.empty()) continue;
                found.push_back(fs::relative(entry.path(), root).string() + ":" + std::to_string(number) +
                                ": includes " + match[1].str() + ": " + why);
            }
        }
    }
    std::ranges::sort(found);
    return found;
}

/// A tree of sources that lives as long as a test.
class SourceTree {
public:
    SourceTree() : root_(fs::temp_directory_path() / ("rondo-include-order-" + std::to_string(::getpid()))) {
        fs::remove_all(root_);
    }
    ~SourceTree() { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) const {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    const fs::path& root() const { return root_; }

private:
    fs::path root_;
};

TEST(IncludeOrder, HoldsInThisRepository) {
    EXPECT_THAT(violations(RONDO_SOURCE_DIR), testing::IsEmpty());
}

TEST(IncludeOrder, NamesFileAndLineOfALaterFolder) {
    const SourceTree tree;
    tree.write("kernels/cpu/gemm.cpp", "#include <memory>\n\n#include \"model/spec.hpp\"\n");
    tree.write("config/settings.hpp", "#  include <rondo/kernels/ops.hpp>\n");
    EXPECT_THAT(violations(tree.root()),
                testing::ElementsAre("config/settings.hpp:1: includes kernels/ops.hpp: config/ stands before kernels/",
                                     "kernels/cpu/gemm.cpp:3: includes model/spec.hpp: kernels/ stands before model/"));
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
    tree.write("model/transformer.cpp", "#include \"config/result.hpp\"\n#include \"model/spec.hpp\"\n");
    tree.write("kernels/cpu/notes.txt", "#include \"cli/main.hpp\"\n");
    EXPECT_THAT(violations(tree.root()), testing::IsEmpty());
}

}  // namespace
