#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "memory/sequence_kv.hpp"
#include "model/batch.hpp"
#include "model/model.hpp"
#include "model/sequence_attention.hpp"
#include "model/transformer.hpp"

namespace rondo {

/// One device at work for many conversations: decode steps, and prefill chunks that stop between layers so that decode
/// steps can run in between. A chunk's rows and its bounds are the prompt's own, whoever else is being served, and
/// decode rows are invariant: what a conversation computes does not depend on its neighbours.
///
/// Calls only enqueue on the device's compute stream; logits are valid once the stream has passed (`Device::notify`).
class Stepper {
public:
    struct Limits {
        int64_t chunk_tokens = 512;
        int decode_rows = 32;
        int64_t context_tokens = 4096;
    };

    static Result<std::unique_ptr<Stepper>> create(const Model& model, const KvPool& pool, Device& device,
                                                   const Limits& limits);

    struct Row {
        SequenceKv* kv = nullptr;
        int32_t token = -1;
        SelectiveDecode* choice = nullptr;  ///< what it attends to; null: everything
    };
    /// Appends a token to each sequence and leaves the logits for the next one. On an error no sequence has grown.
    Status decode(std::span<const Row> rows);
    /// Of row i of the last step [vocabulary]; the caller may change them.
    std::span<float> decode_logits(size_t row);

    /// Starts a chunk of a prompt: appends the tokens to `kv` and embeds them. No other chunk may be open.
    Status begin_chunk(SequenceKv& kv, std::span<const int32_t> tokens, bool wants_logits,
                       const SequenceAttention& attention = {});
    /// Runs the open chunk through as many more layers. After the last, it is closed, and its logits computed.
    Status run_chunk(int layers);
    /// Layers the open chunk has yet to pass; 0 when none is open.
    int chunk_layers_left() const { return chunk_ == nullptr ? 0 : model_.spec.layers - chunk_layer_; }
    /// Gives up the open chunk, if there is one: its sequence is as it was before it.
    void drop_chunk();
    /// Of a chunk's last token [vocabulary], when it asked for them; the caller may change them.
    std::span<float> chunk_logits();

    Device& device() { return device_; }
    int64_t chunk_tokens() const { return limits_.chunk_tokens; }

private:
    Stepper(const Model& model, Device& device, const Limits& limits)
        : model_(model), device_(device), limits_(limits) {}
    Status compute_logits(const Batch& batch, int64_t first_row);
    std::span<float> logits_row(int64_t row);

    const Model& model_;
    Device& device_;
    Limits limits_;
    std::unique_ptr<Transformer> transformer_;
    std::optional<Batch> decode_batch_, chunk_batch_;
    std::vector<SequenceAttention> decode_attention_;  // by row
    SequenceAttention chunk_attention_;
    SequenceKv* chunk_ = nullptr;  // of the open chunk
    int64_t chunk_begin_ = 0;      // its tokens before it
    int chunk_layer_ = 0;
    bool chunk_wants_logits_ = false;
    Buffer device_logits_;            // [decode_rows + 1, V] f32; the last row is the chunk's
    std::vector<float> host_logits_;  // the same; none where the device's memory is the host's
};

}  // namespace rondo
