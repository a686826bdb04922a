#include "cli/measure/bench/sequences.hpp"

#include <algorithm>

#include "config/checked.hpp"
#include "model/attention/watershed.hpp"
#include "model/kv_need.hpp"
#include "model/step_in_line.hpp"

namespace rondo::cli {

namespace {

/// How many of the history's last queries a first choice may look at: it may come right behind the history.
int64_t looked_at(DecodeAttention attention) {
    attention.cold_tokens = 0;
    return StepAttention::prompt_rows(attention);
}

}  // namespace

Result<std::unique_ptr<Sequences>> Sequences::create(const Runner& runner, const BenchOptions& options,
                                                     int64_t tokens_max) {
    const ModelSpec& spec = runner.model.spec;
    const int64_t context = std::min(tokens_max + 1, spec.usable_context());
    const int64_t chunk = std::min<int64_t>(runner.settings.pipeline.prefill.chunk_tokens, context);
    const DType kv_type = kv_dtype(runner.settings.memory.kv_dtype);
    const DecodeAttention& attention = runner.settings.pipeline.decode.attention;
    std::unique_ptr<Sequences> made(new Sequences(chunk, looked_at(attention)));
    const RoundSettings& rounds = runner.settings.pipeline.rounds;
    RONDO_ASSIGN(const int lower_layers, layers_below_watershed(spec, rounds));
    const std::vector<int64_t> ends =
        lower_layers == 0 ? std::vector<int64_t>() : round_ends(context, options.round_tokens);
    const int64_t blocks =
        ceil_div<int64_t>(context, kv_block_tokens) + std::ssize(ends) + blocks_of_copies(attention, nullptr, context);
    const auto all = static_cast<size_t>(blocks * options.batch);
    RONDO_ASSIGN(made->pool_,
                 KvPool::create(*runner.device, Transformer::kv_shape(spec, kv_type, lower_layers), {all, all}));
    Stepper::Limits limits;
    limits.chunk_tokens = chunk;
    limits.decode_rows = options.batch;
    limits.context_tokens = context;
    RONDO_ASSIGN(made->stepper_, Stepper::create(runner.model, *made->pool_, *runner.device, limits));
    for (int i = 0; i < options.batch; ++i) {
        made->sequences_.push_back(std::make_unique<SequenceKv>(*made->pool_));
        made->sequences_.back()->reserve(context);
        made->sequences_.back()->plan_rounds(ends);
        if (lower_layers > 0) {
            RONDO_ASSIGN(auto own_rounds, RoundAttention::create(spec, *made->pool_, rounds));
            made->rounds_.push_back(std::move(own_rounds));
        }
        if (attention.method == DecodeAttention::Method::dense) continue;
        DecodeAttention own = attention;
        own.cold_tokens = attention.reselect_every * i / options.batch;
        StepAttention::Options how = StepAttention::options_of(own);
        how.give_up_blocks = false;  // every repeat begins with the same keys
        how.seed = static_cast<uint64_t>(i);
        RONDO_ASSIGN(auto own_attention, StepAttention::create(spec, *made->pool_, *runner.device, how));
        made->attention_.push_back(std::move(own_attention));
    }
    return made;
}

Stepper::Row Sequences::row_of(size_t sequence, int32_t id) const {
    StepAttention* const attention = dense_ || attention_.empty() ? nullptr : attention_[sequence].get();
    return {sequences_[sequence].get(), id, attention, nullptr};
}

Status Sequences::prefill(std::span<const int32_t> ids, const std::function<void(double)>& done) {
    dense_ = attention_.empty();
    seen_.insert(seen_.end(), ids.begin(), ids.end());
    return append(ids, done);
}

Status Sequences::append(std::span<const int32_t> ids, const std::function<void(double)>& done) {
    const auto all = static_cast<double>(ids.size() * sequences_.size());
    for (size_t s = 0; s < sequences_.size(); ++s) {
        RoundAttention* const rounds = dense_ || rounds_.empty() ? nullptr : rounds_[s].get();
        for (size_t begin = 0; begin < ids.size();) {
            auto count = std::min(std::ssize(ids.subspan(begin)), chunk_tokens_);
            if (rounds != nullptr) count = rounds->within_chunk(sequences_[s]->tokens(), count);
            const auto chunk = ids.subspan(begin, static_cast<size_t>(count));
            RONDO_TRY(stepper_->begin_chunk(*sequences_[s], chunk, BatchPart::Logits::none,
                                            {.decode = row_of(s, -1).attention, .rounds = rounds}));
            RONDO_TRY(stepper_->run_chunk(*sequences_[s], stepper_->layers()));
            begin += chunk.size();
            done(static_cast<double>(s * ids.size() + begin) / all);
        }
    }
    return Status::ok();
}

/// Where the last round of a history of so many tokens begins, by which rounds are chosen.
int64_t Sequences::message_begin(int64_t tokens) const {
    int64_t begin = 0;
    for (const int64_t end : sequences_.front()->planned_ends())
        if (end < tokens) begin = std::max(begin, end);
    return begin;
}

/// The queries of the history's end are computed anew: those of the answer before it have taken their places. So is the
/// last round, by which rounds are chosen.
int64_t Sequences::kept_of(int64_t tokens) const {
    const int64_t kept = rounds_.empty() ? tokens : message_begin(tokens);
    return attention_.empty() ? kept : std::min(kept, std::max<int64_t>(0, tokens - looked_at_));
}

Status Sequences::begin(int64_t tokens, bool dense) {
    dense_ = dense;
    const int64_t kept = dense ? tokens : kept_of(tokens);
    for (const auto& sequence : sequences_) {
        sequence->show_rounds();
        sequence->truncate(kept);
    }
    for (const auto& rounds : rounds_) rounds->begin_message(kv_block_tokens, message_begin(tokens), tokens);
    const auto history = std::span<const int32_t>(seen_).first(static_cast<size_t>(tokens));
    if (kept < tokens) RONDO_TRY(append(history.subspan(static_cast<size_t>(kept)), [](double) {}));
    for (size_t s = 0; s < attention_.size(); ++s) {
        attention_[s]->reset();
        RONDO_TRY(begin_answer(*stepper_, row_of(s, -1)));
    }
    return Status::ok();
}

Status Sequences::step(int32_t id) {
    rows_.clear();
    for (size_t s = 0; s < sequences_.size(); ++s) rows_.push_back(row_of(s, id));
    RONDO_TRY(step_in_line(*stepper_, rows_));
    if (!dense_)
        for (size_t s = 0; s < rounds_.size(); ++s) rounds_[s]->after_step(*sequences_[s]);
    return Status::ok();
}

StepAttentionStats Sequences::stats() const {
    StepAttentionStats sum;
    for (const auto& attention : attention_) sum += attention->stats();
    if (!attention_.empty()) return sum;  // of the rounds that stay
    for (const auto& rounds : rounds_) {
        sum.attended += rounds->stats().attended;
        sum.causal += rounds->stats().causal;
    }
    return sum;
}

}  // namespace rondo::cli
