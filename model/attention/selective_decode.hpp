#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/heavy_keys.hpp"
#include "model/attention/key_selection.hpp"
#include "model/attention/page_selection.hpp"
#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/query_ring.hpp"
#include "model/attention/shifted_keys.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// Chooses what one sequence's decode steps attend to, and serves it. The last queries of each layer are kept; when a
/// choice is due they score all keys, in pieces between steps; what is chosen serves from exactly `lag_steps` steps
/// later on. So results depend on the sequence alone, whenever the work is done.
///
///     after_prefill → (before_step → step → after_step)…        choosing(): on_device, on_host, on_device … until
///                                                                complete(); due(): no step before that
///
/// The pieces may run on other threads than the steps, and beside them, one at a time: `on_device` where nothing else
/// is issued to the device meanwhile, `on_host` anywhere. Beside one only `due` and `steps_left` are called, and what a
/// step does while it is not due: `before_step`, `keep_queries` (in turn with `on_device`), `keys_of_step`,
/// `after_step`. Methods that choose by the very step (quest) or change their choice with it (h2o, a shifted
/// streaming_llm) do that as part of the step, on its thread, and have no pieces then.
class SelectiveDecode {
public:
    struct Options {
        std::shared_ptr<const DecodeSelection> method;
        int64_t page_budget =
            0;                  ///< quest, in place of a method: so many keys in pages that each step chooses; 0: none
        int observe_every = 1;  ///< of the queries kept, every how many-th scores
        int lag_steps = 0;
        bool give_up_blocks = true;  ///< false: an evicting method leaves the sequence's blocks alone (for evaluation)
        bool measure = false;        ///< what share of the attention each step's keys held; costs a pass over all keys
        uint64_t seed = 0;

        bool is_dense() const { return method == nullptr && page_budget == 0; }
    };
    /// What settings ask for.
    static Options options_of(const DecodeAttention& settings);
    /// Last tokens of a prompt that must be computed, at least one: their logits or their queries are wanted.
    static int64_t prompt_rows(const DecodeAttention& settings);
    static Result<std::unique_ptr<SelectiveDecode>> create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                           const Options& options);

    /// Keeps the last rows of a layer's queries; `q` are rows of this sequence, the last one its newest key.
    Status keep_queries(Device& device, int layer, const Tensor& q, int64_t keys) {
        return ring_.keep(device, layer, q, keys);
    }
    /// A prompt is complete: decode steps are counted from here, and the first choice begins if it is due.
    void after_prefill(const SequenceKv& kv);
    /// A choice that is complete and due serves from now on. There is none that is due and not complete.
    void before_step(SequenceKv& kv);
    /// Counts the step, and begins a choice if that is due.
    void after_step(const SequenceKv& kv);
    /// In its place when no step follows.
    void after_last_step(const SequenceKv& kv) { count_step(kv.tokens()); }
    /// Before that, when measuring: what the step's keys held of its attention.
    Status measure_step(const SequenceKv& kv);
    /// Everything is attended to again, nothing is remembered.
    void reset();

    /// A choice is under way, whether its pieces are complete or not.
    bool choosing() const { return choosing_; }
    /// It has to be complete before the next step.
    bool due() const { return choosing_ && steps_ >= due_; }
    /// Steps until then. Beside a piece, from any thread.
    int steps_left() const { return std::max(0, due_ - steps_); }
    bool complete() const { return back_.complete(); }
    int layers_to_score() const { return back_.layers_to_score(); }
    int64_t keys_to_score() const { return back_.keys_seen(); }
    Status on_device(const SequenceKv& kv, int layers) { return back_.on_device(kv, ring_, layers, stats_); }
    void on_host(const KeySelection::RunTasks& run_tasks) { back_.on_host(run_tasks, stats_); }
    /// The choice under way will not serve.
    void give_up();
    /// For those who have nobody to do the pieces elsewhere: what must be complete now, or else this step's share. Once
    /// after each step, so that the work is spread over all of them; before a step only when it is due.
    Status work_now(const SequenceKv& kv);

    /// Blocks that must become free before chosen keys can be copied; 0 when there are enough, or nothing is known yet.
    BlockCounts blocks_short() const { return back_.blocks_short(); }

    /// What a step's row `step` attends to in a layer, once its key is in the pool; without a selection, everything.
    /// What methods do at every step they do here, in order of the layers. Valid until the next call.
    Result<SelectedKeys> keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv);
    /// The keys that serve in a layer, by KV head, and from where on all do.
    std::span<const std::vector<int32_t>> chosen(int layer) const {
        return heavy_ && serving_ ? heavy_->chosen(layer) : front_.chosen(layer);
    }
    int64_t tail_begin() const { return serving_ ? tail_begin_ : 0; }
    bool serving() const { return serving_; }
    /// Of quest's bounds, which stand beside the pool.
    int64_t bytes_beside() const { return pages_ ? pages_->bounds_bytes() : 0; }
    const SelectionStats& stats() const { return stats_; }
    /// When measuring: of each step since the prompt, layer and query head, the share of its attention over all keys
    /// that the keys it attended to hold.
    std::span<const double> masses() const { return masses_; }

private:
    SelectiveDecode(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options, QueryRing ring)
        : spec_(spec),
          pool_(pool),
          device_(device),
          options_(options),
          ring_(std::move(ring)),
          front_(spec, pool, device),
          back_(spec, pool, device) {}
    void begin(const SequenceKv& kv);
    void slide(SequenceKv& kv);
    Status advance(const SequenceKv& kv, int layers);
    void count_step(int64_t keys);
    SelectionTriggers triggers() const { return options_.method ? options_.method->triggers() : SelectionTriggers{}; }
    double mass_held(int layer, int kv_head, std::span<const float> weights, const SequenceKv& kv) const;

    const ModelSpec& spec_;
    const KvPool& pool_;
    Device& device_;
    Options options_;
    QueryRing ring_;
    KeySelection front_, back_;             // the one that serves, and the one that is made
    std::unique_ptr<HeavyKeys> heavy_;      // of a method that accumulates
    std::unique_ptr<ShiftedKeys> shifted_;  // of a method that moves them
    std::unique_ptr<PageSelection> pages_;  // with a page budget
    bool serving_ = false;
    bool choosing_ = false;
    int64_t tail_begin_ = 0;
    std::atomic<int> steps_ = 0;
    int due_ = 0;
    int not_before_ = 0;  // the step from which on a choice that was given up may be tried again
    SelectionStats stats_;
    std::vector<double> masses_;
};

}  // namespace rondo
