#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::house {

namespace fs = std::filesystem;

// What is built into the program. A folder may include only what stands to its left.
inline constexpr std::array<std::string_view, 7> folders = {"config", "kernels", "transport", "memory",
                                                            "model",  "actors",  "cli"};

/// And what is beside it.
inline constexpr std::array<std::string_view, 11> all_folders = {
    "config", "kernels", "transport", "memory", "model", "actors", "cli", "bench", "examples", "tests", "tools"};

inline bool is_source(const fs::path& path) {
    constexpr std::array<std::string_view, 6> endings = {".hpp", ".cpp", ".cuh", ".cu", ".h", ".inc"};
    return std::ranges::find(endings, path.extension().string()) != endings.end();
}

inline bool is_source_or_script(const fs::path& path) {
    constexpr std::array<std::string_view, 4> endings = {".py", ".js", ".mjs", ".sh"};
    return is_source(path) || std::ranges::find(endings, path.extension().string()) != endings.end();
}

struct Source {
    size_t folder = 0;  ///< in the folders that were searched
    fs::path path;
    std::string name;  ///< from the root
};

/// Every file of these folders below `root` that is wanted.
inline std::vector<Source> sources_of(const fs::path& root, std::span<const std::string_view> searched = folders,
                                      bool (*is_wanted)(const fs::path&) = is_source) {
    std::vector<Source> found;
    for (size_t folder = 0; folder < searched.size(); ++folder) {
        if (!fs::exists(root / searched[folder])) continue;
        for (const auto& entry : fs::recursive_directory_iterator(root / searched[folder]))
            if (entry.is_regular_file() && is_wanted(entry.path()))
                found.push_back({folder, entry.path(), fs::relative(entry.path(), root).string()});
    }
    return found;
}

/// A tree of sources that lives as long as a test.
class SourceTree {
public:
    SourceTree() : root_(fs::temp_directory_path() / ("rondo-house-" + std::to_string(::getpid()))) {
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

}  // namespace rondo::house
