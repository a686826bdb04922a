#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "memory/store/aligned_bytes.hpp"
#include "tests/folder.hpp"

/// Where tests of the store put its files.
namespace rondo::testing {

/// Where what is synced costs no time, if there is such a place with room and nobody has named another one. A container
/// has 64 MiB there unless somebody says otherwise.
inline std::filesystem::path in_memory() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code unknown;
    const auto free = std::filesystem::space(memory, unknown).available;
    const bool has_room = !unknown && free >= uintmax_t{512} << 20;
    const bool chosen = std::getenv("TMPDIR") == nullptr && access(memory.c_str(), W_OK) == 0 && has_room;
    return chosen ? memory : std::filesystem::temp_directory_path();
}

}  // namespace rondo::testing
