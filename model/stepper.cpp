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
    for (int i = 0; i < limits.open_chunks; ++i) {
        RONDO_ASSIGN(Batch batch, Batch::create(device, spec, {limits.chunk_tokens, 1, limits.context_tokens}));
        made->chunks_.push_back({std::move(batch), {}, nullptr, 0, 0, false});
    }
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
        decode_attention_[i] = {nullptr, rows[i].attention, nullptr};
    for (size_t i = 0; i < rows.size(); ++i) {
        const SequenceAttention* const attention = rows[i].attention == nullptr ? nullptr : &decode_attention_[i];
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

/// A sequence's open chunk; of null, a free one. Null where there is none.
Stepper::OpenChunk* Stepper::chunk_of(const SequenceKv* kv) {
    const auto found = std::ranges::find(chunks_, kv, &OpenChunk::kv);
    return found == chunks_.end() ? nullptr : &*found;
}

int Stepper::chunk_layers_left(const SequenceKv& kv) const {
    const auto found = std::ranges::find(chunks_, &kv, &OpenChunk::kv);
    return found == chunks_.end() ? 0 : model_.spec.layers - found->layer;
}

Status Stepper::begin_chunk(SequenceKv& kv, std::span<const int32_t> ids, bool wants_logits,
                            const SequenceAttention& attention) {
    assert(chunk_of(&kv) == nullptr && chunk_of(nullptr) != nullptr);
    OpenChunk& chunk = *chunk_of(nullptr);
    chunk.attention = attention;
    chunk.batch.clear();
    RONDO_TRY(chunk.batch.add(
        {&kv, ids, Rows::bulk, wants_logits ? BatchPart::Logits::last : BatchPart::Logits::none, &chunk.attention}));
    chunk.begin = kv.tokens();
    RONDO_TRY(chunk.batch.prepare());
    chunk.kv = &kv;
    chunk.layer = 0;
    chunk.wants_logits = wants_logits;
    return Status::ok();
}

Status Stepper::run_chunk(const SequenceKv& kv, int layers) {
    assert(chunk_of(&kv) != nullptr);
    OpenChunk& chunk = *chunk_of(&kv);
    const int end = std::min(chunk.layer + layers, model_.spec.layers);
    Status status = transformer_->forward(chunk.batch, {chunk.layer, end});
    chunk.layer = end;
    const bool complete = end == model_.spec.layers;
    if (status && complete && chunk.wants_logits) status = compute_logits(chunk.batch, limits_.decode_rows);
    if (!status) {
        drop_chunk(kv);
    } else if (complete) {
        chunk.kv = nullptr;
    }
    return status;
}

void Stepper::drop_chunk(const SequenceKv& kv) {
    OpenChunk* const chunk = chunk_of(&kv);
    if (chunk == nullptr) return;
    chunk->kv->truncate(chunk->begin);
    chunk->kv = nullptr;
}

}  // namespace rondo
