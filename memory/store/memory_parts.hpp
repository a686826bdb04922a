#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rondo {

/// Memory in parts, read and written as if each lay behind the one before.
using MemoryParts = std::vector<std::span<std::byte>>;

inline size_t bytes_of(const MemoryParts& parts) {
    size_t bytes = 0;
    for (const auto part : parts) bytes += part.size();
    return bytes;
}

/// Bytes [first, first + count) of it.
inline MemoryParts parts_within(const MemoryParts& parts, size_t first, size_t count) {
    MemoryParts within;
    for (auto part : parts) {
        if (count == 0) break;
        if (first >= part.size()) {
            first -= part.size();
            continue;
        }
        part = part.subspan(first);
        first = 0;
        if (part.size() > count) part = part.first(count);
        count -= part.size();
        within.push_back(part);
    }
    return within;
}

}  // namespace rondo
