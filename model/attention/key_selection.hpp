#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/selected_kv.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/query_ring.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// What choosing did and cost.
struct SelectionStats {
    int64_t selections = 0;   ///< begun
    int64_t given_up = 0;     ///< of them, for want of memory: everything is attended to instead
    int64_t keys_scored = 0;  ///< by layer and KV head
    int64_t bounds_read = 0;  ///< bytes of quest's
    int64_t keys_chosen = 0;  ///< by layer and KV head, in the selection that serves
    int64_t blocks_held = 0;  ///< of the pool, by the chosen keys' copies
    int64_t attended = 0;     ///< entries that steps attended to, by layer and KV head
    int64_t causal = 0;       ///< entries there were
    double mass = 0.0;        ///< see KeySelection, summed
    int64_t masses = 0;       ///< how many such shares
    double score_seconds = 0.0;
    double select_seconds = 0.0;
    double gather_seconds = 0.0;

    SelectionStats& operator+=(const SelectionStats& other);
};

/// One choice from the first keys of a sequence, made layer by layer in pieces: on the device, which scores keys and
/// puts chosen ones together, and on the host, which chooses. Device and host take turns; steps of the sequence may run
/// between the pieces, as long as its first keys stay.
///
/// As it goes it finds out what share of the attention of the queries looked at the selection before it held, which
/// could not know them; or, being the first, holds itself.
class KeySelection {
public:
    KeySelection(const ModelSpec& spec, KvPool& pool, Device& device);

    /// What may be run side by side: a loop, or a device's threads.
    using RunTasks = std::function<void(int64_t tasks, const std::function<void(int64_t)>& task)>;

    struct How {
        const DecodeSelection* method = nullptr;
        int observe_every = 1;
        uint64_t seed = 0;
        /// Hears of each layer that has been chosen in, by what; layers come from any threads. May be empty.
        std::function<void(int layer, const KeyScores&, std::span<const std::vector<int32_t>> chosen)> told = {};
    };
    /// Of the first `keys` keys; `before` serves until then and does not change, or is null.
    void begin(const How& how, int64_t keys, const KeySelection* before);
    /// Nothing is chosen; memory goes back to the pool.
    void clear();

    int layers_to_score() const { return spec_->layers - scored_; }
    bool complete() const { return gathered_ == spec_->layers; }
    /// Puts together what has been chosen, then scores as many more layers. Without room for copies of keys that will
    /// be given up: out_of_memory, and nothing has changed.
    Status on_device(const SequenceKv& kv, QueryRing& ring, int layers, SelectionStats& stats);
    /// Chooses in the layers that have been scored.
    void on_host(const RunTasks& run_tasks, SelectionStats& stats);

    BlockCounts blocks_short() const;
    int64_t keys_seen() const { return keys_; }
    const SelectedKv& kv() const { return kv_; }
    SelectedKv& kv() { return kv_; }
    /// By KV head, ascending.
    std::span<const std::vector<int32_t>> chosen(int layer) const;

private:
    std::span<std::vector<int32_t>> chosen_of(int layer);
    Status gather(const SequenceKv& kv);
    Status score(const SequenceKv& kv, QueryRing& ring, int layers, SelectionStats& stats);
    std::span<const float> weights_of(int layer) const;
    double mass_of(int layer) const;

    const ModelSpec* spec_;
    Device* device_;
    How how_;
    const KeySelection* before_ = nullptr;
    int64_t keys_ = 0;
    int scored_ = 0, chosen_layers_ = 0, gathered_ = 0;  // layers
    SelectedKv::Place place_ = SelectedKv::Place::copied;
    SelectedKv kv_;
    std::vector<std::vector<int32_t>> chosen_;  // [layers · kv_heads]
    std::vector<int32_t> query_keys_;
    std::vector<double> queries_;  // by layer that was scored: how many queries scored it
    Buffer scores_;                // [layers scored and not chosen in, kv_heads, keys] f32
    std::vector<float> host_scores_;
    std::span<const float> weights_;  // the same where the host can read them
};

}  // namespace rondo
