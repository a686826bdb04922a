#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "memory/sequence_kv.hpp"
#include "model/answer.hpp"
#include "model/attention/sequence_attention.hpp"
#include "model/model.hpp"
#include "model/stepper.hpp"

namespace rondo {

struct Generated {
    std::string text;
    std::vector<int32_t> ids;  ///< the end-of-answer token included, when it ended the answer
    FinishReason finish_reason = FinishReason::length;
    std::vector<std::vector<TokenLogprob>> logprobs;  ///< by token: the chosen one, then the likeliest; when asked for
    double prefill_seconds = 0.0;
    double decode_seconds = 0.0;
};

/// One conversation on one device, without actors: what the command line and tests run, and what the pipeline must
/// equal. Its KV stays, so a further prompt costs only its new tokens.
class Generator {
public:
    struct Options {
        int64_t chunk_tokens = 512;  ///< of prefill
        DType kv_type = DType::bf16;
        int64_t context_tokens_max = 0;  ///< 0: the model's
        size_t kv_bytes_max = 0;         ///< of the conversation's KV; 0: what the context needs
        PrefillAttention prefill = {};   ///< what prompts attend to
        DecodeAttention decode = {};     ///< what answers attend to
        RoundSettings rounds = {};       ///< to which rounds
        /// In place of the method that `decode` names, for an evaluation that knows more.
        std::shared_ptr<const DecodeSelection> decode_method = {};
        bool give_up_blocks = true;  ///< false: an evicting method leaves the KV alone, so that it can be compared
        bool measure = false;        ///< what a prompt's lines cover and hold of the attention; costs time
        PromptProbe* prompt_probe = nullptr;  ///< looks at the lines of prompts; for an evaluation
        MassProbe* step_probe = nullptr;      ///< looks at each step of the answers; likewise
    };

    static Result<std::unique_ptr<Generator>> create(const Model& model, Device& device, const Options& options);

    /// Appends the prompt, then answers; `on_text` hears the answer as it becomes certain. Returning false from it ends
    /// the answer.
    Result<Generated> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                               const std::function<bool(std::string_view)>& on_text = {});
    /// The logits of every token given, appended to what is there: `consume` is called with rows [n, V] f32 in host
    /// memory, in order.
    Status score(std::span<const int32_t> ids, const std::function<void(std::span<const float>)>& consume);
    /// Appends tokens and keeps nothing but their KV; the logits of the last one wait for `step`. Where no answer
    /// follows (history that comes round by round), nothing is chosen for one. Of rounds that were planned within the
    /// tokens, the last one is the message that an answer follows.
    Status prefill(std::span<const int32_t> ids, bool answer_follows = true);
    /// From here on answers attend by this; what an earlier method has chosen is forgotten, the KV stays. The pool has
    /// room for the copies of `Options::decode.budget_tokens` keys, no more.
    Status answer_by(const DecodeAttention& decode, std::shared_ptr<const DecodeSelection> method = {});
    /// One decode step: appends a token, leaves its logits in `logits()`. Behind the last of an answer nothing is
    /// chosen. Where the pool is full, copies of chosen keys give way to the token: the answer attends to everything
    /// until its next choice. Copies of keys that were given up stay.
    Status step(int32_t id, bool is_last = false);
    /// Of the last token appended, in host memory.
    std::span<float> logits() { return logits_; }

    /// Drops what does not begin `ids`, so that only the rest needs prefilling; returns how many of them are kept,
    /// fewer than all: the last one's logits are wanted.
    int64_t keep_prefix(std::span<const int32_t> ids);
    void truncate(int64_t tokens);
    int64_t tokens() const { return kv_->tokens(); }
    int64_t context_tokens_max() const { return context_tokens_max_; }
    void begin_round() { kv_->begin_round(); }
    /// Where rounds will end that are known ahead, by tokens of the whole sequence, ascending.
    void plan_rounds(std::vector<int64_t> ends) { kv_->plan_rounds(std::move(ends)); }
    const Transformer& transformer() const { return stepper_->transformer(); }
    /// How it attends where that is not to everything; null where it is.
    SparsePrefill* sparse_prefill() { return prefill_.get(); }
    StepAttention* step_attention() { return decode_.get(); }
    const RoundAttention* round_attention() const { return rounds_.get(); }
    const SequenceKv& kv() const { return *kv_; }
    const KvPool& pool() const { return *pool_; }

private:
    Generator(const Model& model, Device& device) : model_(model), device_(device) {}
    /// Refuses, before anything is computed, tokens beyond the context or outside the vocabulary.
    Status check(std::span<const int32_t> ids) const;
    Status create_attention();
    Status create_decode();
    /// All rounds are seen again. Where an answer follows so many tokens, which come next, rounds will be chosen for
    /// it.
    void see_rounds(int64_t count);
    /// An evicting method has given up keys that further prompts must see.
    bool has_gaps() const { return kv_->first_held() > 0; }
    void forget();
    /// At most a chunk.
    Status append(std::span<const int32_t> ids, BatchPart::Logits logits);

    const Model& model_;
    Device& device_;
    Options options_;
    int64_t context_tokens_max_ = 0;
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<SequenceKv> kv_;
    std::vector<int32_t> history_;  // the token of every key
    std::unique_ptr<Stepper> stepper_;
    std::unique_ptr<SparsePrefill> prefill_;
    std::unique_ptr<StepAttention> decode_;
    std::unique_ptr<RoundAttention> rounds_;
    SequenceAttention attention_;
    std::span<float> logits_;  // of the stepper
};

}  // namespace rondo
