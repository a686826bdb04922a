#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace rondo::testing {

/// Whether these bytes are in any file below a folder.
inline bool any_file_has(const std::filesystem::path& folder, std::string_view bytes) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        std::ostringstream all;
        all << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        if (all.str().find(bytes) != std::string::npos) return true;
    }
    return false;
}

}  // namespace rondo::testing
