#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::house {

namespace fs = std::filesystem;

// A folder may include only what stands to its left.
inline constexpr std::array<std::string_view, 7> folders = {"config", "kernels", "transport", "memory",
                                                            "model",  "actors",  "cli"};

inline bool is_source(const fs::path& path) {
    constexpr std::array<std::string_view, 6> endings = {".hpp", ".cpp", ".cuh", ".cu", ".h", ".inc"};
    return std::ranges::find(endings, path.extension().string()) != endings.end();
}

struct Source {
    size_t folder = 0;  ///< in `folders`
    fs::path path;
    std::string name;  ///< from the root
};

/// Every source file of the folders below `root`.
inline std::vector<Source> sources_of(const fs::path& root) {
    std::vector<Source> found;
    for (size_t folder = 0; folder < folders.size(); ++folder) {
        if (!fs::exists(root / folders[folder])) continue;
        for (const auto& entry : fs::recursive_directory_iterator(root / folders[folder]))
            if (entry.is_regular_file() && is_source(entry.path()))
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
