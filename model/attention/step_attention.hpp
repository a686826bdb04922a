#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/choice.hpp"
#include "model/attention/policies/decode_selection/decode_selection.hpp"
#include "model/attention/step_attention_stats.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// What the steps of one sequence's answers attend to, where that is not everything. One class for each mechanism: keys
/// chosen now and then (ChosenKeys), those that go on competing (HeavyKeys), those that are moved (ShiftedWindow),
/// pages chosen by each step (QuestPages). Used by one thread at a time, whoever has the sequence.
///
///     after_prefill → (before_step → step → after_step)… → after_last_step
///
/// A mechanism may begin a Choice behind a prompt or a step, which serves from exactly `lag_steps` steps later on: so
/// results depend on the sequence alone, whenever the work is done. Who has others to do the pieces takes the choice
/// (`take_begun`) and hands it back before the step at which it is due; who has not calls `work_now`. A choice that
/// begins has its queries copied on the device: `after_prefill` and `after_step` are for the thread that issues to it.
class StepAttention {
public:
    struct Options {
        std::shared_ptr<const DecodeSelection> method;
        int64_t page_budget = 0;  ///< quest, in place of a method: keys in the pages of a step; 0: none
        int observe_every = 1;    ///< of the queries kept, every how many-th scores
        int lag_steps = 0;
        bool give_up_blocks = true;  ///< false: an evicting method leaves the sequence's blocks alone (for evaluation)
        uint64_t seed = 0;
    };
    /// What settings ask for.
    static Options options_of(const DecodeAttention& settings);
    /// Last tokens of a prompt that must be computed, at least one: their logits or their queries are wanted.
    static int64_t prompt_rows(const DecodeAttention& settings);
    /// The mechanism that they need; null where a step attends to everything.
    static Result<std::unique_ptr<StepAttention>> create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                         const Options& options);
    virtual ~StepAttention() = default;

    /// Keeps the last rows of a layer's queries; `q` are rows of this sequence, the last one its newest key.
    virtual Status keep_queries(Device& device, int layer, const Tensor& q, int64_t keys);
    /// What a step's row `step` attends to in a layer, once its key is in the pool; `counts` null: everything. What a
    /// mechanism does at every step it does here, in order of the layers. Valid until the next call.
    virtual Result<AttendedKeys> keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) = 0;

    /// A prompt is complete: decode steps are counted from here, and the first choice begins if it is due. `device`
    /// has computed the last of the prompt.
    virtual void after_prefill(Device& device, const SequenceKv& kv) = 0;
    /// A choice that is complete and due serves from now on. There is none that is due and not complete.
    virtual void before_step(SequenceKv& kv) = 0;
    /// Counts the step, and begins a choice if that is due.
    virtual void after_step(const SequenceKv& kv) = 0;
    /// In its place when no step follows.
    virtual void after_last_step(const SequenceKv& kv) = 0;
    /// Everything is attended to again, nothing is remembered but what was counted.
    virtual void reset() = 0;

    /// The choice that has just begun, for others to make; null where there is none.
    virtual std::unique_ptr<Choice> take_begun() { return nullptr; }
    /// Gives back a choice that was taken. Complete, it serves from when it is due; else it is given up.
    virtual void hand_back(std::unique_ptr<Choice> choice);
    /// In its place where the choice is not wanted any more.
    virtual void drop(std::unique_ptr<Choice> choice);
    /// A choice is under way that has to be complete before the next step.
    virtual bool due() const { return false; }
    /// Steps until then.
    virtual int steps_left() const { return 0; }
    /// Makes what must be complete now of a choice that nobody has taken, or else this step's share. Once after each
    /// step, so that the work is spread over all of them; before a step only when it is due.
    virtual Status work_now() { return Status::ok(); }

    /// Steps attend to chosen keys, or have done so.
    virtual bool serving() const = 0;
    /// The keys [begin, end) that the step under way attends to in a layer and KV head, range by range; false, and no
    /// range, where those are all.
    using OnRange = std::function<void(int64_t begin, int64_t end)>;
    virtual bool ranges_of_step(int layer, int kv_head, const SequenceKv& kv, const OnRange& on_range) const = 0;
    /// Of what stands beside the pool.
    virtual int64_t bytes_beside() const { return 0; }
    const StepAttentionStats& stats() const { return stats_; }

protected:
    StepAttentionStats stats_;
};

}  // namespace rondo
