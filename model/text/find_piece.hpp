#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace rondo {

/// As text.find(piece, from), whose time is quadratic where many places nearly fit; this one's is not.
inline size_t find_piece(std::string_view text, std::string_view piece, size_t from = 0) {
    if (from > text.size() || text.size() - from < piece.size()) return std::string_view::npos;
    if (piece.empty()) return from;
    const void* const found = memmem(text.data() + from, text.size() - from, piece.data(), piece.size());
    return found == nullptr ? std::string_view::npos
                            : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace rondo
