#pragma once

#include <algorithm>
#include <cstdint>

#include "config/checked.hpp"
#include "config/settings.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo {

class DecodeSelection;

/// Blocks that a sequence of so many tokens may come to hold: twice the full ones, since each of its rounds may leave
/// one partly filled.
inline int64_t blocks_of_rounds(int64_t tokens) {
    return 2 * ceil_div<int64_t>(tokens, kv_block_tokens) + 1;
}

/// Blocks for copies of the keys that one sequence's answer attends to: those that serve, and those that are being
/// chosen meanwhile. Dense answers have none, unless a method chooses in place of the one that `decode` names.
inline int64_t blocks_of_copies(const DecodeAttention& decode, const DecodeSelection* in_place,
                                int64_t context_tokens) {
    if (decode.method == DecodeAttention::Method::dense && in_place == nullptr) return 0;
    return 2 * (ceil_div<int64_t>(std::min<int64_t>(decode.budget_tokens, context_tokens), kv_block_tokens) + 2);
}

}  // namespace rondo
