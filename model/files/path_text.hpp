#pragma once

#include <filesystem>
#include <string>

namespace rondo {

/// A path for a one-line error: whole, however long, with '?' for control characters.
inline std::string path_text(const std::filesystem::path& path) {
    std::string out = path.string();
    for (char& c : out) {
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') c = '?';
    }
    return out;
}

}  // namespace rondo
