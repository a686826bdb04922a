#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/selected_kv.hpp"
#include "memory/sequence_kv.hpp"
#include "model/policies/decode_selection/decode_selection.hpp"
#include "model/spec.hpp"

namespace rondo {

/// What choosing did and cost.
struct SelectionStats {
    int64_t selections = 0;
    int64_t keys_scored = 0;  ///< by layer and KV head
    int64_t keys_chosen = 0;  ///< by layer and KV head, in the selection that serves
    int64_t keys_all = 0;     ///< that it was chosen from
    int64_t blocks_held = 0;  ///< of the pool, by the chosen keys' copies
    double score_seconds = 0.0;
    double select_seconds = 0.0;
    double gather_seconds = 0.0;
};

/// Chooses what one sequence's decode steps attend to, and serves it. The last queries of each layer are kept in a
/// ring; when a selection is due they score all keys, layer by layer, between steps; what is chosen serves from exactly
/// `lag_steps` steps later on. So results depend on the sequence alone, whenever the work is done.
class SelectiveDecode {
public:
    struct Options {
        std::shared_ptr<const DecodeSelection> method;
        int observe_every = 1;  ///< of the queries kept, every how many-th scores
        int lag_steps = 0;
        bool give_up_blocks = true;  ///< false: an evicting method leaves the sequence's blocks alone (for evaluation)
        bool measure = false;        ///< what share of the attention each step's keys held; costs a pass over all keys
        uint64_t seed = 0;
    };
    /// What settings ask for; without a method where that is dense.
    static Options options_of(const DecodeAttention& settings);
    static Result<std::unique_ptr<SelectiveDecode>> create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                           Options options);

    /// Keeps the last rows of a layer's queries; `q` are rows of this sequence, the last one its newest key.
    Status keep_queries(int layer, const Tensor& q, int64_t keys);
    /// A prompt is complete: decode steps are counted from here.
    Status after_prefill(SequenceKv& kv);
    /// Before a step of this sequence: a selection that is due serves from now on, finished first if need be.
    Status before_step(SequenceKv& kv);
    /// After it: begins to choose anew if that is due, and does this step's part of the work.
    Status after_step(SequenceKv& kv);
    /// Everything is attended to again, nothing is remembered.
    void reset();

    /// What rows attend to in a layer; without a selection, everything.
    SelectedKeys keys(int layer) const;
    /// The keys that serve in a layer, by KV head, and from where on all do.
    std::span<const std::vector<int32_t>> chosen(int layer) const;
    int64_t tail_begin() const { return serving_ ? front_.keys : 0; }
    bool serving() const { return serving_; }
    const SelectionStats& stats() const { return stats_; }
    /// When measuring: of each step since the prompt, layer and query head, the share of its attention over all keys
    /// that the keys it attended to hold.
    std::span<const double> masses() const { return masses_; }

private:
    struct Selection {
        SelectedKv kv;
        std::vector<std::vector<int32_t>> chosen;  // [layers · kv_heads]
        int64_t keys = 0;                          // that were chosen from
    };

    SelectiveDecode(const ModelSpec& spec, KvPool& pool, Device& device, Options options);
    Status begin(SequenceKv& kv);
    int layers_left() const { return choosing_ ? spec_.layers - next_layer_ : 0; }
    Status advance(const SequenceKv& kv, int layers);
    Status send_tables(const SequenceKv& kv);
    /// The kept queries of these keys, ready to be scored against the first `keys` keys.
    Result<ScoreArgs> score_args(const SequenceKv& kv, int layer, int64_t keys, std::span<const int32_t> query_keys);
    Status score(const SequenceKv& kv, int layer, int place);
    Status measure_step(const SequenceKv& kv);
    Status finish(SequenceKv& kv);
    std::span<std::vector<int32_t>> chosen_of(Selection& selection, int layer) const;

    const ModelSpec& spec_;
    KvPool& pool_;
    Device& device_;
    Options options_;
    int64_t ring_rows_ = 0;
    Buffer ring_;     // [layers, ring rows, H·d] f32: the queries of key k at row k mod ring rows
    Buffer queries_;  // [queries, H·d] f32: those that score
    Buffer scores_;   // [layers at a time, kv_heads, keys] f32
    std::vector<float> host_scores_;
    DeviceTable<int32_t> ring_rows_of_, row_keys_, tables_;
    std::vector<int32_t> query_keys_;
    std::vector<int64_t> kept_from_;  // by layer: the first key whose queries are in the ring

    Selection front_, back_;
    bool serving_ = false;
    bool choosing_ = false;
    int next_layer_ = 0;
    SelectedKv::Place place_ = SelectedKv::Place::copied;  // of the selection under way
    int steps_ = 0;
    int due_ = 0;
    SelectionStats stats_;
    std::vector<double> masses_;
};

}  // namespace rondo
