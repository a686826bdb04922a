// What pages for users say of pipeline files: their examples are read, and the keys that they name are there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "config/setting_keys.hpp"

namespace rondo {
namespace {

struct Page {
    std::string name, text;
};

/// README.md and those of docs/.
std::vector<Page> pages() {
    const std::filesystem::path root = RONDO_SOURCE_DIR;
    std::vector<std::filesystem::path> files{root / "README.md"};
    for (const auto& entry : std::filesystem::directory_iterator(root / "docs"))
        if (entry.path().extension() == ".md") files.push_back(entry.path());
    std::vector<Page> found;
    for (const auto& file : files) {
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        found.push_back({file.filename().string(), text.str()});
    }
    return found;
}

/// A key, or the beginning of several.
bool is_known(const std::string& path) {
    return std::ranges::any_of(
        setting_keys(), [&](const SettingKey& key) { return key.path == path || key.path.starts_with(path + "."); });
}

TEST(Pages, ExamplesOfPipelineFilesAreRead) {
    const std::string fence = "\n```yaml\n";
    int examples = 0;
    for (const Page& page : pages()) {
        for (size_t at = page.text.find(fence); at != std::string::npos; at = page.text.find(fence, at + 1)) {
            const size_t begin = at + fence.size();
            const auto read =
                settings_from_yaml(page.text.substr(begin, page.text.find("\n```", begin) - begin), page.name, {});
            EXPECT_TRUE(read) << read.error().message;
            ++examples;
        }
    }
    EXPECT_GE(examples, 2);
}

TEST(Pages, NameOnlyKeysThatAreThere) {
    static const std::regex quoted("`(?:--set )?((?:pipeline|memory|server)\\.[a-z0-9_.]+)");
    int keys = 0;
    for (const Page& page : pages()) {
        for (std::sregex_iterator at(page.text.begin(), page.text.end(), quoted), end; at != end; ++at, ++keys)
            EXPECT_TRUE(is_known((*at)[1].str())) << page.name << ": " << (*at)[1];
    }
    EXPECT_GE(keys, 30);
}

}  // namespace
}  // namespace rondo
