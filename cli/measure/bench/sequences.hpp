#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cli/measure/bench/bench.hpp"
#include "model/attention/sequence_attention.hpp"
#include "model/batch.hpp"
#include "model/transformer.hpp"

namespace rondo::cli {

/// Some conversations of one length that decode together, for bench decode; of at most `tokens_max` tokens.
class Sequences {
public:
    static Result<std::unique_ptr<Sequences>> create(const Runner& runner, const BenchOptions& options,
                                                     int64_t tokens_max);

    /// The same history for each, behind what they have; hears which share of it is done.
    Status prefill(std::span<const int32_t> ids, const std::function<void(double)>& done);
    /// Puts all back to a length, and begins an answer: attended to as the settings say, or to everything. Selections
    /// are spread over the steps, as those of conversations that began at different times are.
    Status begin(int64_t tokens, bool dense);
    /// One token for each, and their logits brought to the host.
    Status step(int32_t id);
    std::span<const float> logits() const { return logits_; }
    /// Of all sequences, since they were made.
    StepAttentionStats stats() const;
    double attend_seconds() const { return transformer_->attend_seconds(); }
    double product_seconds() const { return transformer_->product_seconds(); }
    bool chooses() const { return !decodes_.empty(); }
    /// Of one token's key and value, in one layer and KV head.
    double token_bytes() const { return static_cast<double>(pool_->shape().atom.bytes()) / kv_block_tokens; }

private:
    Sequences(Device& device, int64_t vocabulary, int64_t chunk_tokens, int64_t looked_at)
        : device_(device), vocabulary_(vocabulary), chunk_tokens_(chunk_tokens), looked_at_(looked_at) {}
    Status append(std::span<const int32_t> ids, const std::function<void(double)>& done);
    const SequenceAttention* attention_of(size_t sequence) const;

    Device& device_;
    int64_t vocabulary_, chunk_tokens_;
    int64_t looked_at_;          // last tokens of the history whose queries a first choice looks at
    std::vector<int32_t> seen_;  // the history
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<Transformer> transformer_;
    std::unique_ptr<Batch> batch_;
    std::vector<std::unique_ptr<SequenceKv>> sequences_;
    std::vector<std::unique_ptr<StepAttention>> decodes_;
    std::vector<SequenceAttention> attentions_;
    bool dense_ = true;
    Buffer device_logits_;
    std::vector<float> logits_;
};

}  // namespace rondo::cli
