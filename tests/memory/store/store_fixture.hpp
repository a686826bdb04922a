#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "memory/store/aligned_bytes.hpp"

/// A folder for tests of the store.
namespace rondo::testing {

/// Closed to others, and gone with its contents at the end.
class Folder {
public:
    explicit Folder(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
        std::string name = (in / "rondo-store-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// Where what is synced costs no time, if there is such a place and nobody has named another one.
inline std::filesystem::path in_memory() {
    const std::filesystem::path memory = "/dev/shm";
    const bool chosen = std::getenv("TMPDIR") == nullptr && access(memory.c_str(), W_OK) == 0;
    return chosen ? memory : std::filesystem::temp_directory_path();
}

}  // namespace rondo::testing
