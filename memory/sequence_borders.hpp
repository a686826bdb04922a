#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "config/result.hpp"

/// Borders of a sequence's blocks and rounds, by key: what the parts of SequenceKv share.
namespace rondo {

/// Index of the first of the borders that is not before `key`.
inline size_t index_of(const std::vector<int32_t>& begins, int64_t key) {
    return static_cast<size_t>(std::ranges::lower_bound(begins, key) - begins.begin());
}

inline void shift_from(std::vector<int32_t>& begins, size_t first, int64_t by) {
    for (size_t i = first; i < begins.size(); ++i) begins[i] += static_cast<int32_t>(by);
}

inline Status check_count(const char* what, int64_t count, int64_t count_min, int64_t count_max) {
    if (count >= count_min && count <= count_max) return {};
    return make_error(ErrorCode::out_of_range, "sequence KV: " + std::to_string(count) + " more tokens " + what +
                                                   ", must be " + std::to_string(count_min) + " to " +
                                                   std::to_string(count_max));
}

}  // namespace rondo
