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
        made->chunks_.push_back({.batch = std::move(batch)});
    }
    made->decode_attention_.resize(static_cast<size_t>(limits.decode_rows));
    const auto logits = static_cast<size_t>((limits.decode_rows + limits.chunk_logit_rows) * spec.vocabulary);
    RONDO_ASSIGN(made->device_logits_, device.allocate(logits * sizeof(float)));
    if (!device.computes_in_host_memory()) {
        RONDO_ASSIGN(made->landed_logits_, device.allocate_host(logits * sizeof(float)));
    }
    return made;
}

std::span<float> Stepper::logits_row(int64_t row) {
    float* const all = (landed_logits_.data() == nullptr ? device_logits_ : landed_logits_).as<float>();
    return {all + row * model_.spec.vocabulary, static_cast<size_t>(model_.spec.vocabulary)};
}

Status Stepper::compute_logits(const Batch& batch, int64_t first, int64_t rows, int64_t at) {
    const int64_t vocabulary = model_.spec.vocabulary;
    float* const to = device_logits_.as<float>() + at * vocabulary;
    RONDO_TRY(transformer_->logits(batch, first, Tensor::of(to, DType::f32, rows, vocabulary)));
    if (landed_logits_.data() == nullptr) return Status::ok();
    const auto bytes = static_cast<size_t>(rows * vocabulary) * sizeof(float);
    return device_.copy(logits_row(at).data(), to, bytes, StreamId::compute);
}

/// All sequences by one key, or none.
Status Stepper::grow(std::span<const Row> rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
        const Status grown = rows[i].kv->extend(1);
        if (grown) continue;
        shrink(rows.first(i));
        refused_row_ = i;
        return grown;
    }
    return Status::ok();
}

void Stepper::shrink(std::span<const Row> rows) {
    for (const Row& row : rows) row.kv->begin_again(row.kv->tokens() - 1);  // its block was promised
}

Status Stepper::decode(std::span<const Row> rows) {
    refused_row_.reset();
    RONDO_TRY(grow(rows));
    const Status done = run(rows);
    if (done) return done;
    give_up_work();
    shrink(rows);  // keys that were not all written must not be found again
    return done;
}

/// What was enqueued before something failed ends before its blocks are others'.
void Stepper::give_up_work() {
    static_cast<void>(device_.drain(StreamId::compute));
}

Status Stepper::lay_out(std::span<const Row> rows) {
    Batch& batch = *decode_batch_;
    batch.clear();
    for (size_t i = 0; i < rows.size() && i < decode_attention_.size(); ++i)
        decode_attention_[i] = {nullptr, rows[i].attention, nullptr, rows[i].probe};
    for (size_t i = 0; i < rows.size(); ++i) {
        const SequenceAttention* const attention = rows[i].attention == nullptr ? nullptr : &decode_attention_[i];
        const Status added = batch.add({rows[i].kv,
                                        rows[i].kv->tokens() - 1,
                                        {&rows[i].id, 1},
                                        Rows::invariant,
                                        BatchPart::Logits::last,
                                        attention});
        if (added) continue;
        refused_row_ = i;
        return added;
    }
    return Status::ok();
}

Status Stepper::run(std::span<const Row> rows) {
    RONDO_TRY(lay_out(rows));
    Batch& batch = *decode_batch_;
    RONDO_TRY(batch.prepare());
    RONDO_TRY(transformer_->forward(batch));
    return compute_logits(batch, 0, batch.logit_rows(), 0);
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

Status Stepper::begin_chunk(SequenceKv& kv, std::span<const int32_t> ids, BatchPart::Logits logits,
                            const SequenceAttention& attention) {
    assert(chunk_of(&kv) == nullptr && chunk_of(nullptr) != nullptr);
    OpenChunk& chunk = *chunk_of(nullptr);
    chunk.attention = attention;
    chunk.begin = kv.tokens();
    chunk.is_within = false;
    chunk.logits = logits;
    if (attention.rounds != nullptr) attention.rounds->begin_chunk(kv, chunk.begin);
    RONDO_TRY(kv.extend(std::ssize(ids)));
    Status laid = open_chunk(chunk, kv, ids);
    if (!laid) kv.truncate(chunk.begin);  // as if it had not begun
    return laid;
}

Status Stepper::begin_chunk_within(SequenceKv& kv, int64_t first, std::span<const int32_t> ids) {
    assert(chunk_of(&kv) == nullptr && chunk_of(nullptr) != nullptr);
    OpenChunk& chunk = *chunk_of(nullptr);
    chunk.attention = {};
    chunk.begin = first;
    chunk.is_within = true;
    chunk.logits = BatchPart::Logits::none;
    return open_chunk(chunk, kv, ids);
}

Status Stepper::open_chunk(OpenChunk& chunk, SequenceKv& kv, std::span<const int32_t> ids) {
    completed_ = nullptr;
    chunk.layer = 0;
    chunk.batch.clear();
    RONDO_TRY(chunk.batch.add({&kv, chunk.begin, ids, Rows::bulk, chunk.logits, &chunk.attention}));
    RONDO_TRY(chunk.batch.prepare());
    chunk.kv = &kv;
    return Status::ok();
}

/// At the watershed rounds are chosen, and the chunk is laid out anew for the layers above it.
Status Stepper::run_layers(OpenChunk& chunk, int end) {
    RoundAttention* const rounds = chunk.attention.rounds;
    const int watershed = rounds == nullptr ? 0 : rounds->layers_below();
    if (chunk.layer >= watershed || end < watershed || !rounds->chooses(*chunk.kv, chunk.begin))
        return transformer_->forward(chunk.batch, {chunk.layer, end});
    RONDO_TRY(transformer_->forward(chunk.batch, {chunk.layer, watershed}));
    rounds->choose(*chunk.kv);
    RONDO_TRY(chunk.batch.prepare());
    return transformer_->forward(chunk.batch, {watershed, end});
}

Status Stepper::run_chunk(const SequenceKv& kv, int layers) {
    assert(chunk_of(&kv) != nullptr);
    OpenChunk& chunk = *chunk_of(&kv);
    const int end = std::min(chunk.layer + layers, model_.spec.layers);
    Status status = run_layers(chunk, end);
    chunk.layer = end;
    const bool complete = end == model_.spec.layers;
    if (status && complete && chunk.logits == BatchPart::Logits::last)
        status = compute_logits(chunk.batch, 0, 1, limits_.decode_rows);
    if (!status) {
        give_up_work();
        drop_chunk(kv);
    } else if (complete) {
        chunk.kv = nullptr;
        completed_ = &chunk;
    }
    return status;
}

Result<std::span<float>> Stepper::chunk_logits(int64_t first, int64_t rows) {
    if (completed_ == nullptr || first < 0 || rows < 1 || rows > limits_.chunk_logit_rows ||
        first + rows > completed_->batch.logit_rows())
        return make_error(ErrorCode::internal, "logits of rows that the last chunk has not computed");
    RONDO_TRY(compute_logits(completed_->batch, first, rows, limits_.decode_rows));
    return std::span(chunk_logits().data(), static_cast<size_t>(rows * model_.spec.vocabulary));
}

Status Stepper::reach_logits() {
    RONDO_ASSIGN(const Mark computed, device_.record(StreamId::compute));
    return device_.reach(computed);
}

void Stepper::drop_chunk(const SequenceKv& kv) {
    OpenChunk* const chunk = chunk_of(&kv);
    if (chunk == nullptr) return;
    if (!chunk->is_within) chunk->kv->begin_again(chunk->begin);  // its blocks were promised
    chunk->kv = nullptr;
}

}  // namespace rondo
