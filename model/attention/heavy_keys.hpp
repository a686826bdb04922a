#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/selected_kv.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// What the keys that one sequence keeps have been worth to its queries so far, for a method that accumulates: chosen
/// keys, and behind them a window of the most recent ones that slides. A key that falls out of the window takes the
/// place of the least chosen one if it has been worth more, else it is lost.
///
///     begin (each layer) → (leave_window → add, each layer)…        part of each step, on its device's thread
class HeavyKeys {
public:
    HeavyKeys(const ModelSpec& spec, const KvPool& pool, Device& device);

    /// What `scores` says of the chosen keys and of the window, which begins at `window_begin`. Layers may begin side
    /// by side.
    void begin(int layer, const KeyScores& scores, std::span<const std::vector<int32_t>> chosen, int64_t window_begin);
    /// Keys before `window_begin` compete, in order of age, for places among the copies.
    Status leave_window(int layer, int64_t window_begin, const SequenceKv& kv, SelectedKv& copies);
    /// Adds what a step, whose row is `step`, attends to with these keys.
    Status add(int layer, const ScoreArgs& step, const SelectedKeys& attended, const SequenceKv& kv);

    /// The sequence's own keys from here on are still to be read.
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
    static void add_to_window(Head& head, const float* weights, std::span<const int32_t> block_begin,
                              int64_t window_begin);

    const KvPool* pool_;
    Device* device_;
    int kv_heads_;
    std::vector<Head> heads_;                   // [layers · kv_heads]
    std::vector<std::vector<int32_t>> chosen_;  // likewise
    std::vector<int64_t> window_begin_;         // by layer
    std::vector<int32_t> places_;               // by KV head, of the key that competes
    Buffer weights_;                            // [kv_heads, columns] f32
};

}  // namespace rondo
