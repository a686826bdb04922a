#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// What the keys that one sequence keeps have been worth to its queries so far: chosen keys, and behind them a window
/// of the most recent ones that slides. Numbers alone; begun by a choice, gone on with by HeavyKeys.
class HeavySums {
public:
    explicit HeavySums(const ModelSpec& spec);

    /// What `scores` says of the chosen keys and of the window, which begins at `window_begin`. Layers may begin side
    /// by side.
    void begin(int layer, const KeyScores& scores, std::span<const std::vector<int32_t>> chosen, int64_t window_begin);
    /// The window's first key falls out of it. In each KV head it takes the place of the least chosen key if it has
    /// been worth more, else it is lost. The places by KV head, below 0 where it is lost; valid until the next call.
    /// Empty where it is lost in all of them.
    std::span<const int32_t> leave_window(int layer);
    /// Adds a step's weights [kv_heads, columns]. Each KV head has those of its chosen keys first, padded to whole
    /// blocks. Then come those of the sequence's blocks, from the block in which the window begins. Block b begins at
    /// key `block_begin[b]`; the last entry is the end.
    void add(int layer, std::span<const float> weights, std::span<const int32_t> block_begin);

    int64_t window_begin(int layer) const { return window_begin_[static_cast<size_t>(layer)]; }
    /// The first key that is in a window still.
    int64_t first_needed() const;
    /// The chosen keys of a layer by KV head, in the order of their places.
    std::span<const std::vector<int32_t>> chosen(int layer) const;

private:
    struct Head {
        std::vector<float> sums;    // by place
        std::vector<float> window;  // of key k at k mod its size
    };
    Head& head_of(int layer, int head) { return heads_[static_cast<size_t>(layer * kv_heads_ + head)]; }
    static int32_t place_for(const Head& head, std::span<const int32_t> keys, float sum);
    static void add_to_window(Head& head, const float* weights, std::span<const int32_t> begins, int64_t window_begin);

    int kv_heads_;
    std::vector<Head> heads_;                   // [layers · kv_heads]
    std::vector<std::vector<int32_t>> chosen_;  // likewise
    std::vector<int64_t> window_begin_;         // by layer
    std::vector<int32_t> places_;               // by KV head, of the key that competes
};

}  // namespace rondo
