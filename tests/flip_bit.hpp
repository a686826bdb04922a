#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace rondo::testing {

/// Damage that changes a byte whatever it was: sealed bytes are random, so a fixed byte may be what is there already.
inline void flip_bit(const std::filesystem::path& file, uint64_t offset, uint64_t bit = 0) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(offset));
    const int old = bytes.get();
    bytes.seekp(static_cast<std::streamoff>(offset));
    bytes.put(static_cast<char>(old ^ (1 << bit % 8)));
}

}  // namespace rondo::testing
