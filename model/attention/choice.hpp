#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/chosen_kv.hpp"
#include "memory/device_table.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/heavy_sums.hpp"
#include "model/attention/key_lists.hpp"
#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/query_ring.hpp"
#include "model/attention/step_attention_stats.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// A choice among the first keys of a sequence: a job, made layer by layer in pieces. A piece on the device scores keys
/// and puts chosen ones together; one on the host chooses. Device and host take turns.
///
/// It holds all it needs as it was when the choice began: the queries it looks at, where the keys lie, and leases that
/// keep them there. So the sequence may grow, be cut, give blocks up or go. The choice belongs to one holder at a time,
/// who hands it on whole.
///
///     begin → (on_device → on_host)… → on_device: complete → swap_result
///
/// Choosing also measures the choice before: what share of these queries' attention its keys and the tail hold. It was
/// made without knowing these queries. A first choice measures itself.
class Choice {
public:
    Choice(const ModelSpec& spec, KvPool& pool, Device& device);

    /// What may be run side by side: a loop, or a device's threads.
    using RunTasks = std::function<void(int64_t tasks, const std::function<void(int64_t)>& task)>;

    struct How {
        std::shared_ptr<const DecodeSelection> method;
        int observe_every = 1;  ///< of the queries kept, every how many-th scores
        uint64_t seed = 0;
        uint64_t number = 0;  ///< of the sequence's choices, for who begins them
        /// What served when the choice began; null: everything was attended to.
        std::shared_ptr<const KeyLists> before = {};
    };
    /// Among the keys that the sequence has now. The queries are copied on `device`, which computed the last of them,
    /// by the thread that issues to it. Should there be no memory for them, the first piece says so.
    void begin(How how, Device& device, const SequenceKv& kv, const QueryRing& ring);
    /// Nothing is chosen; memory goes back to the pool.
    void clear();

    uint64_t number() const { return how_.number; }
    /// Among whose keys it chooses, and how many those are in a layer.
    int64_t tokens() const { return lists_->tokens; }
    int64_t keys(int layer) const { return lists_->keys[pool_->shape().group_of(layer)]; }
    int layers_to_score() const { return spec_->layers - scored_; }
    bool complete() const { return gathered_ == spec_->layers; }
    /// Puts together what has been chosen, then scores as many more layers. Without room for copies of keys that will
    /// be given up: out_of_memory, and nothing has changed.
    Status on_device(int layers);
    /// Chooses in the layers that have been scored.
    void on_host(const RunTasks& run_tasks);
    /// Blocks that must become free before chosen keys can be copied; none when there are enough, or nothing is known.
    BlockCounts blocks_short() const;

    /// Adds what it did and cost since this was asked last.
    void count_into(StepAttentionStats& stats);
    /// Gives what a complete choice has made for what served before it (lists may be null), which goes with `clear` or
    /// the next `begin`. Nobody else holds those lists.
    void swap_result(std::shared_ptr<KeyLists>& lists, ChosenKv& kv);
    /// Of a method that accumulates: what the chosen keys and the window's were worth.
    std::unique_ptr<HeavySums> take_sums() { return std::move(sums_); }

private:
    Status copy_queries(Device& device, const QueryRing& ring);
    Status gather();
    Status score(int layers);
    Status send_tables();
    ScoreArgs score_args(int layer) const;
    /// Scores of layers [first, end).
    int64_t floats_of(int first, int end) const;
    std::span<const float> weights_of(int layer) const;
    double mass_of(int layer) const;

    const ModelSpec* spec_;
    KvPool* pool_;
    Device* device_;
    How how_;
    Status begun_;
    SequenceKv kv_;                      // leases and tables of its own
    Buffer queries_;                     // [layers, method's queries, H·d] f32, of each layer the first counts_[layer]
    DeviceTable<int32_t> query_keys_;    // [layers, method's queries]
    std::vector<int64_t> query_counts_;  // by layer
    DeviceTable<int32_t> blocks_;        // of each group: their number, their borders, the blocks
    PerGroup<int64_t> located_;          // a group's in blocks_
    int scored_ = 0, chosen_layers_ = 0, gathered_ = 0;  // layers
    Buffer scores_;  // of the layers scored and not chosen in, each [kv_heads, keys] f32
    std::vector<float> host_scores_;
    std::span<const float> weights_;  // the same where the host can read them
    ChosenKv::Place place_ = ChosenKv::Place::copied;
    ChosenKv selected_;
    std::shared_ptr<KeyLists> lists_;
    std::unique_ptr<HeavySums> sums_;
    StepAttentionStats stats_;
    std::vector<double> masses_;  // layer by layer, so that their sum does not depend on who adds them up when
};

}  // namespace rondo
