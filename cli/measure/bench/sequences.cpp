#include "cli/measure/bench/sequences.hpp"

#include <algorithm>

#include "config/checked.hpp"

namespace rondo::cli {

namespace {

/// A sequence's first choice may come right behind its history.
int64_t looked_at(DecodeAttention attention) {
    attention.cold_tokens = 0;
    return StepAttention::prompt_rows(attention);
}

}  // namespace

Result<std::unique_ptr<Sequences>> Sequences::create(const Runner& runner, const BenchOptions& options,
                                                     int64_t tokens_max) {
    const ModelSpec& spec = runner.model.spec;
    const int64_t context = tokens_max + 1;
    const int64_t chunk = runner.settings.pipeline.prefill.chunk_tokens;
    const int64_t rows = std::max<int64_t>(chunk, options.batch);
    const DType kv_type = kv_dtype(runner.settings.memory.kv_dtype);
    const DecodeAttention& attention = runner.settings.pipeline.decode.attention;
    std::unique_ptr<Sequences> made(new Sequences(*runner.device, spec.vocabulary, chunk, looked_at(attention)));
    int64_t blocks = ceil_div<int64_t>(context, kv_block_tokens);
    if (attention.method != DecodeAttention::Method::dense)
        blocks += 2 * (ceil_div<int64_t>(attention.budget_tokens, kv_block_tokens) + 2);
    RONDO_ASSIGN(made->pool_, KvPool::create(*runner.device, Transformer::kv_shape(spec, kv_type),
                                             static_cast<size_t>(blocks * options.batch)));
    RONDO_ASSIGN(made->transformer_, Transformer::create(*runner.model.weights, *made->pool_, *runner.device, rows));
    RONDO_ASSIGN(Batch batch, Batch::create(*runner.device, spec, {rows, options.batch, context}));
    made->batch_ = std::make_unique<Batch>(std::move(batch));
    const auto logits = static_cast<size_t>(options.batch * spec.vocabulary);
    RONDO_ASSIGN(made->device_logits_, runner.device->allocate(logits * sizeof(float)));
    made->logits_.resize(logits);
    for (int i = 0; i < options.batch; ++i) {
        made->sequences_.push_back(std::make_unique<SequenceKv>(*made->pool_));
        made->sequences_.back()->reserve(context);
        if (attention.method == DecodeAttention::Method::dense) continue;
        DecodeAttention own = attention;
        own.cold_tokens = attention.reselect_every * i / options.batch;
        StepAttention::Options how = StepAttention::options_of(own);
        how.give_up_blocks = false;  // every repeat begins with the same keys
        how.seed = static_cast<uint64_t>(i);
        RONDO_ASSIGN(auto decode, StepAttention::create(spec, *made->pool_, *runner.device, how));
        made->decodes_.push_back(std::move(decode));
        made->attentions_.push_back({nullptr, made->decodes_.back().get(), nullptr});
    }
    return made;
}

const SequenceAttention* Sequences::attention_of(size_t sequence) const {
    return dense_ || decodes_.empty() ? nullptr : &attentions_[sequence];
}

Status Sequences::prefill(std::span<const int32_t> ids, const std::function<void(double)>& done) {
    dense_ = decodes_.empty();
    seen_.insert(seen_.end(), ids.begin(), ids.end());
    return append(ids, done);
}

Status Sequences::append(std::span<const int32_t> ids, const std::function<void(double)>& done) {
    const auto all = static_cast<double>(ids.size() * sequences_.size());
    for (size_t s = 0; s < sequences_.size(); ++s) {
        for (size_t begin = 0; begin < ids.size(); begin += static_cast<size_t>(chunk_tokens_)) {
            const auto chunk = ids.subspan(begin, std::min(ids.size() - begin, static_cast<size_t>(chunk_tokens_)));
            batch_->clear();
            RONDO_TRY(batch_->add({sequences_[s].get(), chunk, Rows::bulk, BatchPart::Logits::none, attention_of(s)}));
            RONDO_TRY(batch_->prepare());
            RONDO_TRY(transformer_->forward(*batch_));
            done(static_cast<double>(s * ids.size() + begin + chunk.size()) / all);
        }
    }
    return Status::ok();
}

Status Sequences::begin(int64_t tokens, bool dense) {
    dense_ = dense;
    // The queries of the history's end are computed anew: those of the answer before have taken their places.
    const int64_t kept = dense || decodes_.empty() ? tokens : std::max<int64_t>(0, tokens - looked_at_);
    for (const auto& sequence : sequences_) sequence->truncate(kept);
    const auto history = std::span<const int32_t>(seen_).first(static_cast<size_t>(tokens));
    if (kept < tokens) RONDO_TRY(append(history.subspan(static_cast<size_t>(kept)), [](double) {}));
    for (size_t s = 0; s < decodes_.size(); ++s) {
        decodes_[s]->reset();
        if (dense) continue;
        decodes_[s]->after_prefill(*sequences_[s]);
        RONDO_TRY(decodes_[s]->work_now());
    }
    return Status::ok();
}

Status Sequences::step(int32_t id) {
    batch_->clear();
    for (size_t s = 0; s < sequences_.size(); ++s) {
        if (attention_of(s) != nullptr) {
            if (decodes_[s]->due()) RONDO_TRY(decodes_[s]->work_now());
            decodes_[s]->before_step(*sequences_[s]);
        }
        RONDO_TRY(
            batch_->add({sequences_[s].get(), {&id, 1}, Rows::invariant, BatchPart::Logits::last, attention_of(s)}));
    }
    RONDO_TRY(batch_->prepare());
    RONDO_TRY(transformer_->forward(*batch_));
    const Tensor out = Tensor::of(device_logits_.data(), DType::f32, batch_->logit_rows(), vocabulary_);
    RONDO_TRY(transformer_->logits(*batch_, 0, out));
    RONDO_TRY(device_.copy(logits_.data(), out.data, logits_.size() * sizeof(float), StreamId::compute));
    RONDO_TRY(device_.wait(StreamId::compute));
    for (size_t s = 0; s < sequences_.size(); ++s) {
        if (attention_of(s) == nullptr) continue;
        decodes_[s]->after_step(*sequences_[s]);
        RONDO_TRY(decodes_[s]->work_now());
    }
    return Status::ok();
}

StepAttentionStats Sequences::stats() const {
    StepAttentionStats sum;
    for (const auto& decode : decodes_) sum += decode->stats();
    return sum;
}

}  // namespace rondo::cli
