#pragma once

#include <cstdint>

namespace rondo {

/// What attending by a mechanism did and cost.
struct StepAttentionStats {
    int64_t selections = 0;   ///< choices of keys that began; of quest, steps that chose pages
    int64_t given_up = 0;     ///< of the choices, for want of memory: everything is attended to instead
    int64_t keys_scored = 0;  ///< by layer and KV head
    int64_t bounds_read = 0;  ///< bytes of quest's
    int64_t keys_chosen = 0;  ///< by layer and KV head, in the choice that serves
    int64_t blocks_held = 0;  ///< of the pool, by the chosen keys' copies
    int64_t attended = 0;     ///< entries that steps attended to, by layer and KV head
    int64_t causal = 0;       ///< entries there were
    double mass = 0.0;        ///< see Choice, summed
    int64_t masses = 0;       ///< how many such shares
    double score_seconds = 0.0;
    double select_seconds = 0.0;
    double gather_seconds = 0.0;

    StepAttentionStats& operator+=(const StepAttentionStats& other);
};

}  // namespace rondo
