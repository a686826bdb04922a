#pragma once

#include <algorithm>
#include <cstdint>

#include "config/checked.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo {

/// Blocks that a sequence of so many tokens may come to hold: twice the full ones, since each of its rounds may leave
/// one partly filled.
inline int64_t blocks_of_rounds(int64_t tokens) {
    return 2 * ceil_div<int64_t>(tokens, kv_block_tokens) + 1;
}

/// Blocks for copies of the keys that one sequence's answer attends to: those that serve, and those that are being
/// chosen meanwhile.
inline int64_t blocks_of_copies(int64_t budget_tokens, int64_t context_tokens) {
    return 2 * (ceil_div<int64_t>(std::min(budget_tokens, context_tokens), kv_block_tokens) + 2);
}

}  // namespace rondo
