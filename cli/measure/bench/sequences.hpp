#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cli/measure/bench/bench.hpp"
#include "model/attention/sequence_attention.hpp"
#include "model/stepper.hpp"

namespace rondo::cli {

/// Some conversations of one length that decode together, for bench decode; of at most `tokens_max` tokens.
class Sequences {
public:
    static Result<std::unique_ptr<Sequences>> create(const Runner& runner, const BenchOptions& options,
                                                     int64_t tokens_max);

    /// Adds the same history to each sequence; `done` hears which share of it is computed.
    Status prefill(std::span<const int32_t> ids, const std::function<void(double)>& done);
    /// Puts all back to a length, and begins an answer: attended to as the settings say, or to everything. Choices
    /// are spread over the steps, as those of conversations that began at different times are.
    Status begin(int64_t tokens, bool dense);
    /// One token for each, and their logits brought to the host: what the pipeline does in a step.
    Status step(int32_t id);
    std::span<const float> logits() const { return stepper_->all_decode_logits(sequences_.size()); }
    /// Of all sequences, since they were made.
    StepAttentionStats stats() const;
    const StepSeconds& seconds() const { return stepper_->transformer().seconds(); }
    bool chooses() const { return !attention_.empty() || !rounds_.empty(); }
    /// Bytes of one token's key and value, in one layer and KV head.
    double token_bytes() const { return static_cast<double>(pool_->shape().atom.bytes()) / kv_block_tokens; }

private:
    Sequences(int64_t chunk_tokens, int64_t looked_at) : chunk_tokens_(chunk_tokens), looked_at_(looked_at) {}
    Status append(std::span<const int32_t> ids, const std::function<void(double)>& done);
    Stepper::Row row_of(size_t sequence, int32_t id) const;
    /// Of a history of so many tokens those that are not computed anew for an answer.
    int64_t kept_of(int64_t tokens) const;
    int64_t message_begin(int64_t tokens) const;

    int64_t chunk_tokens_;
    int64_t looked_at_;          // last tokens of the history whose queries a first choice looks at
    std::vector<int32_t> seen_;  // the history
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<Stepper> stepper_;
    std::vector<std::unique_ptr<SequenceKv>> sequences_;
    std::vector<std::unique_ptr<StepAttention>> attention_;  // by sequence; none: dense
    std::vector<std::unique_ptr<RoundAttention>> rounds_;    // likewise
    std::vector<Stepper::Row> rows_;                         // of a step
    bool dense_ = true;
};

}  // namespace rondo::cli
