#pragma once

#include <memory>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/kv_pool.hpp"
#include "model/batch.hpp"
#include "model/step_seconds.hpp"
#include "model/weights.hpp"

namespace rondo {

/// Layers [begin, end).
struct LayerRange {
    int begin = 0;
    int end = 0;
};

/// Runs a batch through layers of a model on one device. Steppable: a batch can stop after any layer and go on later,
/// because its hidden states are its own and its KV is in the pool. Owns scratch for one step at a time; weights and
/// pool are shared and outlive it.
class Transformer {
public:
    static Result<std::unique_ptr<Transformer>> create(const Weights& weights, const KvPool& pool, Device& device,
                                                       int64_t rows_max);

    /// A range that begins at 0 embeds the batch's tokens first.
    Status forward(Batch& batch, LayerRange layers);
    Status forward(Batch& batch) { return forward(batch, {0, weights_.spec.layers}); }

    /// The logits of logit rows [first, first + out.rows) of a batch that has passed all layers; out [rows, V] f32.
    Status logits(const Batch& batch, int64_t first, const Tensor& out);

    const StepSeconds& seconds() const { return seconds_; }

    /// The shape of a pool for this model.
    static KvShape kv_shape(const ModelSpec& spec, DType kv_type, int lower_layers = 0);

private:
    Transformer(const Weights& weights, const KvPool& pool, Device& device, int64_t rows_max)
        : weights_(weights), pool_(pool), device_(device), rows_max_(rows_max) {}

    /// Whether the rows without logits need no more of the last layer than their KV.
    bool may_narrow(const Batch& batch) const;
    Status narrow(Batch& batch);
    static void count_dense_prompts(const Batch& batch);
    Status attention(Batch& batch, int layer);
    AttendArgs attend_args(const Batch& batch, int layer, int first_sequence, int sequences, Rows rows) const;
    Status attend(const Batch& batch, int layer);
    Status attend_prompts(const Batch& batch, int layer);
    Status look_at_rounds(const Batch& batch, int layer);
    Status attend_answers(const Batch& batch, int layer);
    Tensor queries(const Batch& batch) const;
    Tensor queries_of(const Batch& batch, int sequence) const;
    Status keep_queries(const Batch& batch, int layer, int first_sequence, int sequences);
    Status feed_forward(Batch& batch, int layer);
    Status rms_norm(const Tensor& out, const Tensor& x, const Buffer& weight);
    Status rotate(const Tensor& q, const Tensor& k, const Tensor& angles);
    Status append_kv(const Batch& batch, int layer, const Tensor& k, const Tensor& v);
    /// Takes what the products of a whole batch need beside their operands.
    Status reserve_products();
    /// out (+)= x · w, the first `bulk` rows and the others each by their own kernel.
    Status multiply(int64_t bulk, const Tensor& out, const Tensor& x, const PackedMatrix& w, const float* bias,
                    bool accumulate);
    Tensor scratch(const Buffer& buffer, DType type, int64_t rows, int64_t columns) const {
        return Tensor::of(buffer.data(), type, rows, columns);
    }

    const Weights& weights_;
    const KvPool& pool_;
    Device& device_;
    int64_t rows_max_;
    Buffer inverse_frequency_;  // [d/2] f64
    Buffer angles_;             // [rows, d] f32
    Buffer input_;              // [rows, D, H·d or F]: what the next product multiplies
    Buffer product_;            // [rows, (H + 2G)·d or 2F] f32: what it gives before attention, before the activation
    Buffer taken_;              // [rows, D or H·d] f32: of the rows whose logits are wanted
    std::vector<AttendedKeys> selected_;  // by sequence that decodes
    StepSeconds seconds_;
};

}  // namespace rondo
