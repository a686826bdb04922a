#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "memory/store/aligned_bytes.hpp"
#include "tests/folder.hpp"

/// Where tests of the store put its files.
namespace rondo::testing {

/// Where what is synced costs no time, if there is such a place and nobody has named another one.
inline std::filesystem::path in_memory() {
    const std::filesystem::path memory = "/dev/shm";
    const bool chosen = std::getenv("TMPDIR") == nullptr && access(memory.c_str(), W_OK) == 0;
    return chosen ? memory : std::filesystem::temp_directory_path();
}

}  // namespace rondo::testing
