#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "model/attention/query_ring.hpp"
#include "model/attention/step_attention.hpp"

namespace rondo {

/// Keys that a method chooses by the last queries, once or again and again, and all keys from a tail on: their copies,
/// or where the pool had no room for any, the keys where they lie. What was chosen before serves while a choice is
/// under way.
class ChosenKeys : public StepAttention {
public:
    ChosenKeys(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options, QueryRing ring);

    Status keep_queries(Device& device, int layer, const Tensor& q, int64_t keys) final {
        return ring_.keep(device, layer, q, keys);
    }
    Result<AttendedKeys> keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) override;
    void after_prefill(Device& device, const SequenceKv& kv) final;
    void before_step(SequenceKv& kv) final;
    void after_step(const SequenceKv& kv) final;
    void after_last_step(const SequenceKv& kv) final { count_step(kv); }
    void reset() final;

    std::unique_ptr<Choice> take_begun() final;
    void hand_back(std::unique_ptr<Choice> choice) final;
    void drop(std::unique_ptr<Choice> choice) final;
    bool due() const final { return choosing_ && steps_ >= due_; }
    int steps_left() const final { return std::max(0, due_ - steps_); }
    Status work_now() final;

    bool serving() const final { return serving_; }
    bool ranges_of_step(int layer, int kv_head, const SequenceKv& kv, const OnRange& on_range) const final;
    /// Once a choice serves: the keys chosen in a layer, by KV head, and from where on all are attended to.
    virtual std::span<const std::vector<int32_t>> chosen(int layer) const { return std::as_const(*lists_).of(layer); }
    int64_t tail_begin(int layer) const { return serving_ ? tail_begin_[pool_.shape().group_of(layer)] : 0; }

protected:
    /// A choice that is complete begins to serve.
    virtual void serve(Choice& choice);
    /// The sequence's own keys from here on are still to be read.
    virtual int64_t first_needed() const { return tail_begin_[pool_.shape().group_of(0)]; }
    virtual void count_step(const SequenceKv& kv);
    int64_t attended(const SequenceKv& kv) const;
    ChosenKv& copies() { return copies_; }

    const ModelSpec& spec_;
    KvPool& pool_;
    Device& device_;

private:
    void begin(Device& device, const SequenceKv& kv);
    void stop_choosing();
    void recycle(std::unique_ptr<Choice> choice);
    void give_up();
    void forget_from(int64_t tokens);
    void slide(SequenceKv& kv);
    Status advance(int layers);

    Options options_;
    ChoiceTriggers triggers_;
    QueryRing ring_;
    bool serving_ = false;
    std::shared_ptr<KeyLists> lists_;  // of the choice that serves; the next one reads them too
    ChosenKv copies_;                  // of those keys
    PerGroup<int64_t> tail_begin_;
    bool choosing_ = false;
    std::unique_ptr<Choice> choice_;  // begun and not taken, or made and not due
    std::unique_ptr<Choice> spare_;   // whose memory the next one uses
    uint64_t number_ = 0;             // of the last choice
    int64_t choice_tokens_ = 0;       // whose keys it is made among
    int steps_ = 0;
    int due_ = 0;
    int not_before_ = 0;  // the step from which on a choice that was given up may be tried again
};

}  // namespace rondo
