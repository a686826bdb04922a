#include "model/stepper.hpp"

#include <algorithm>
#include <cassert>

namespace rondo {

Result<std::unique_ptr<Stepper>> Stepper::create(const Model& model, const KvPool& pool, Device& device,
                                                 const Limits& limits) {
    const ModelSpec& spec = model.spec;
    std::unique_ptr<Stepper> made(new Stepper(model, device, limits));
    const int64_t rows = std::max<int64_t>(limits.chunk_tokens, limits.decode_rows);
    RONDO_ASSIGN(made->transformer_, Transformer::create(*model.weights, pool, device, rows));
    RONDO_ASSIGN(made->decode_batch_,
                 Batch::create(device, spec, {limits.decode_rows, limits.decode_rows, limits.context_tokens}));
    RONDO_ASSIGN(made->chunk_batch_, Batch::create(device, spec, {limits.chunk_tokens, 1, limits.context_tokens}));
    made->decode_attention_.resize(static_cast<size_t>(limits.decode_rows));
    const auto logits = static_cast<size_t>((limits.decode_rows + 1) * spec.vocabulary);
    RONDO_ASSIGN(made->device_logits_, device.allocate(logits * sizeof(float)));
    if (device.space().kind != DeviceKind::cpu) made->host_logits_.resize(logits);
    return made;
}

std::span<float> Stepper::logits_row(int64_t row) {
    float* const all = host_logits_.empty() ? device_logits_.as<float>() : host_logits_.data();
    return {all + row * model_.spec.vocabulary, static_cast<size_t>(model_.spec.vocabulary)};
}

std::span<float> Stepper::decode_logits(size_t row) {
    return logits_row(static_cast<int64_t>(row));
}

std::span<float> Stepper::chunk_logits() {
    return logits_row(limits_.decode_rows);
}

Status Stepper::compute_logits(const Batch& batch, int64_t first_row) {
    const int64_t vocabulary = model_.spec.vocabulary;
    float* const to = device_logits_.as<float>() + first_row * vocabulary;
    RONDO_TRY(transformer_->logits(batch, 0, Tensor::of(to, DType::f32, batch.logit_rows(), vocabulary)));
    if (host_logits_.empty()) return Status::ok();
    const auto bytes = static_cast<size_t>(batch.logit_rows() * vocabulary) * sizeof(float);
    return device_.copy(logits_row(first_row).data(), to, bytes, StreamId::compute);
}

Status Stepper::decode(std::span<const Row> rows) {
    Batch& batch = *decode_batch_;
    batch.clear();
    for (size_t i = 0; i < rows.size() && i < decode_attention_.size(); ++i)
        decode_attention_[i] = {nullptr, rows[i].choice};
    for (size_t i = 0; i < rows.size(); ++i) {
        const SequenceAttention* const attention = rows[i].choice == nullptr ? nullptr : &decode_attention_[i];
        RONDO_TRY(batch.add({rows[i].kv, {&rows[i].token, 1}, Rows::invariant, BatchPart::Logits::last, attention}));
    }
    RONDO_TRY(batch.prepare());
    Status status = transformer_->forward(batch);
    if (status) status = compute_logits(batch, 0);
    if (!status) {  // keys that were not all written must not be found again
        for (const Row& row : rows) row.kv->truncate(row.kv->tokens() - 1);
    }
    return status;
}

Status Stepper::begin_chunk(SequenceKv& kv, std::span<const int32_t> tokens, bool wants_logits,
                            const SequenceAttention& attention) {
    assert(chunk_ == nullptr);
    chunk_batch_->clear();
    chunk_attention_ = attention;
    RONDO_TRY(chunk_batch_->add({&kv, tokens, Rows::bulk,
                                 wants_logits ? BatchPart::Logits::last : BatchPart::Logits::none, &chunk_attention_}));
    const int64_t before = kv.tokens();
    RONDO_TRY(chunk_batch_->prepare());
    chunk_ = &kv;
    chunk_begin_ = before;
    chunk_layer_ = 0;
    chunk_wants_logits_ = wants_logits;
    return Status::ok();
}

Status Stepper::run_chunk(int layers) {
    assert(chunk_ != nullptr);
    const int end = std::min(chunk_layer_ + layers, model_.spec.layers);
    Status status = transformer_->forward(*chunk_batch_, {chunk_layer_, end});
    chunk_layer_ = end;
    const bool complete = end == model_.spec.layers;
    if (status && complete && chunk_wants_logits_) status = compute_logits(*chunk_batch_, limits_.decode_rows);
    if (!status) {
        drop_chunk();
    } else if (complete) {
        chunk_ = nullptr;
    }
    return status;
}

void Stepper::drop_chunk() {
    if (chunk_ == nullptr) return;
    chunk_->truncate(chunk_begin_);
    chunk_ = nullptr;
}

}  // namespace rondo
