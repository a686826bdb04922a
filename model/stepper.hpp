#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/sequence_attention.hpp"
#include "model/batch.hpp"
#include "model/model.hpp"
#include "model/transformer.hpp"

namespace rondo {

/// One device at work for many conversations: decode steps, and prefill chunks that stop between layers so that decode
/// steps can run in between. A chunk's rows and its bounds are the prompt's own, whoever else is being served, and
/// decode rows are invariant: what a conversation computes does not depend on its neighbours.
///
/// Calls only enqueue on the device's compute stream, but where a chunk passes the watershed: rounds are chosen there
/// by the host. Logits are valid once the stream has passed (`Device::notify`, or `reach_logits` for a caller that has
/// nothing else to do).
class Stepper {
public:
    struct Limits {
        int64_t chunk_tokens = 512;
        int decode_rows = 32;
        int64_t context_tokens = 4096;
        int open_chunks = 1;
        int64_t chunk_logit_rows = 1;  ///< of a chunk whose rows all have logits, so many at a time
    };

    static Result<std::unique_ptr<Stepper>> create(const Model& model, const KvPool& pool, Device& device,
                                                   const Limits& limits);

    struct Row {
        SequenceKv* kv = nullptr;
        int32_t id = -1;
        StepAttention* attention = nullptr;  ///< what it attends to; null: everything
        MassProbe* probe = nullptr;          ///< an evaluation's, that looks at what `attention` does
    };
    /// Appends a token to each sequence and leaves the logits for the next one. On an error no sequence has grown; the
    /// blocks that the tokens would have taken stay set aside.
    Status decode(std::span<const Row> rows);
    /// The row for which the last step was refused before anything was computed: the same step can be tried without
    /// it. None: the step went through, or failed for another reason.
    std::optional<size_t> refused_row() const { return refused_row_; }
    /// Of row i of the last step [vocabulary]; the caller may change them.
    std::span<float> decode_logits(size_t row) { return logits_row(static_cast<int64_t>(row)); }
    /// Of the last step's first rows, one behind the other.
    std::span<float> all_decode_logits(size_t rows) {
        return {logits_row(0).data(), rows * static_cast<size_t>(model_.spec.vocabulary)};
    }

    /// Starts a chunk of a prompt: appends the tokens to `kv` and lays them out. A sequence has one open chunk at the
    /// most; chunks of other sequences may stay open meanwhile (parked between two layers), `open_chunks` in all.
    Status begin_chunk(SequenceKv& kv, std::span<const int32_t> ids, BatchPart::Logits logits,
                       const SequenceAttention& attention = {});
    /// The same of tokens that `kv` has room for already, from `first` on: what stands behind them comes from
    /// elsewhere. They attend to all keys before them, and have no logits.
    Status begin_chunk_within(SequenceKv& kv, int64_t first, std::span<const int32_t> ids);
    /// Runs the sequence's open chunk through as many more layers. After the last it is closed, and if only its last
    /// row has logits, they are computed.
    Status run_chunk(const SequenceKv& kv, int layers);
    /// Layers the sequence's open chunk has yet to pass; 0 when none is open.
    int chunk_layers_left(const SequenceKv& kv) const;
    /// Gives up the sequence's open chunk, if there is one: the sequence is as it was before it.
    void drop_chunk(const SequenceKv& kv);
    /// Of the last token of the chunk that was completed last [vocabulary], when it asked for them; the caller may
    /// change them.
    std::span<float> chunk_logits() { return logits_row(limits_.decode_rows); }
    /// Of a chunk that was just completed and whose rows all have logits: those of rows [first, first + rows), one
    /// behind the other; `rows` are `chunk_logit_rows` at the most.
    Result<std::span<float>> chunk_logits(int64_t first, int64_t rows);
    /// Blocks until all logits that were asked for are valid.
    Status reach_logits();

    Device& device() { return device_; }
    const Transformer& transformer() const { return *transformer_; }
    int layers() const { return model_.spec.layers; }
    int64_t chunk_tokens() const { return limits_.chunk_tokens; }

private:
    struct OpenChunk {
        Batch batch;
        SequenceAttention attention;
        SequenceKv* kv = nullptr;  // none: this one is free
        int64_t begin = 0;         // the sequence's tokens before it
        bool is_within = false;    // the sequence had room for its tokens
        int layer = 0;
        BatchPart::Logits logits = BatchPart::Logits::none;
    };

    Stepper(const Model& model, Device& device, const Limits& limits)
        : model_(model), device_(device), limits_(limits) {}
    Status grow(std::span<const Row> rows);
    static void shrink(std::span<const Row> rows);
    void give_up_work();
    Status lay_out(std::span<const Row> rows);
    Status run(std::span<const Row> rows);
    Status open_chunk(OpenChunk& chunk, SequenceKv& kv, std::span<const int32_t> ids);
    Status run_layers(OpenChunk& chunk, int end);
    /// Logits [first, first + rows) of a batch, to row `at` of all.
    Status compute_logits(const Batch& batch, int64_t first, int64_t rows, int64_t at);
    std::span<float> logits_row(int64_t row);

    const Model& model_;
    Device& device_;
    Limits limits_;
    std::unique_ptr<Transformer> transformer_;
    OpenChunk* chunk_of(const SequenceKv* kv);

    std::optional<Batch> decode_batch_;
    std::vector<SequenceAttention> decode_attention_;  // by row
    std::optional<size_t> refused_row_;
    std::vector<OpenChunk> chunks_;         // open_chunks of them; they stay where they are
    const OpenChunk* completed_ = nullptr;  // last
    Buffer device_logits_;                  // [decode_rows + chunk_logit_rows, V] f32
    Buffer landed_logits_;                  // the same in host memory; none where the device's memory is the host's
};

}  // namespace rondo
