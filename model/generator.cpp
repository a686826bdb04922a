#include "model/generator.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "model/attention/watershed.hpp"
#include "model/kv_need.hpp"
#include "model/step_in_line.hpp"

namespace rondo {

namespace {

constexpr int64_t logit_rows_max = 16;  // at a time: a row of a large vocabulary is half a megabyte

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<std::unique_ptr<Generator>> Generator::create(const Model& model, Device& device, const Options& options) {
    const ModelSpec& spec = model.spec;
    std::unique_ptr<Generator> made(new Generator(model, device));
    made->options_ = options;
    made->context_tokens_max_ = spec.usable_context();
    if (options.context_tokens_max > 0)
        made->context_tokens_max_ = std::min(made->context_tokens_max_, options.context_tokens_max);
    RONDO_ASSIGN(const int lower_layers, layers_below_watershed(spec, options.rounds));
    const KvShape shape = Transformer::kv_shape(spec, options.kv_type, lower_layers);
    int64_t blocks = blocks_of_rounds(made->context_tokens_max_) +
                     blocks_of_copies(options.decode, options.decode_method.get(), made->context_tokens_max_);
    const size_t block_bytes = shape.block_bytes(LayerGroup::lower) + shape.block_bytes(LayerGroup::upper);
    if (options.kv_bytes_max > 0) {
        blocks = std::min(blocks, static_cast<int64_t>(options.kv_bytes_max / block_bytes));
        if (blocks == 0) {
            return make_error(ErrorCode::out_of_memory, "a block of KV takes " + std::to_string(block_bytes) +
                                                            " bytes; memory.device_kv_mib is below that");
        }
        made->context_tokens_max_ = std::min(made->context_tokens_max_, blocks * kv_block_tokens);
    }
    RONDO_ASSIGN(made->pool_,
                 KvPool::create(device, shape, {static_cast<size_t>(blocks), static_cast<size_t>(blocks)}));
    made->kv_ = std::make_unique<SequenceKv>(*made->pool_);
    made->kv_->reserve(made->context_tokens_max_);
    // What stands before the first round, where nobody says that: its first block.
    if (lower_layers > 0) made->plan_rounds(apart_from_preamble({}));
    made->history_.reserve(static_cast<size_t>(made->context_tokens_max_));
    const int64_t rows_max = std::min(options.chunk_tokens, made->context_tokens_max_);
    made->options_.chunk_tokens = rows_max;
    Stepper::Limits limits;
    limits.chunk_tokens = rows_max;
    limits.decode_rows = 1;
    limits.context_tokens = made->context_tokens_max_;
    limits.chunk_logit_rows = logit_rows_max;
    RONDO_ASSIGN(made->stepper_, Stepper::create(model, *made->pool_, device, limits));
    RONDO_TRY(made->create_attention());
    made->logits_ = made->stepper_->chunk_logits();
    return made;
}

Status Generator::create_attention() {
    if (options_.prefill.method != PrefillAttention::Method::dense) {
        RONDO_ASSIGN(prefill_, SparsePrefill::create(model_.spec, device_, options_.prefill));
        prefill_->measure(options_.measure ? 1 : 0);
    }
    RONDO_ASSIGN(rounds_, RoundAttention::create(model_.spec, *pool_, options_.rounds));
    return create_decode();
}

Status Generator::create_decode() {
    decode_.reset();
    StepAttention::Options how = StepAttention::options_of(options_.decode);
    if (options_.decode_method != nullptr) how.method = options_.decode_method;
    how.give_up_blocks = options_.give_up_blocks;
    if (options_.step_probe != nullptr && how.give_up_blocks && how.method != nullptr && how.method->evicts())
        return make_error(ErrorCode::invalid_argument, "a probe of keys that are given up; their blocks must be kept");
    RONDO_ASSIGN(decode_, StepAttention::create(model_.spec, *pool_, device_, how));
    attention_ = {prefill_.get(), decode_.get(), options_.prompt_probe, nullptr, rounds_.get()};
    return Status::ok();
}

Status Generator::answer_by(const DecodeAttention& decode, std::shared_ptr<const DecodeSelection> method) {
    options_.decode = decode;
    options_.decode_method = std::move(method);
    return create_decode();
}

void Generator::forget() {
    if (decode_) decode_->reset();  // its copies take room too
    std::vector<int64_t> ends = kv_->planned_ends();
    *kv_ = SequenceKv(*pool_);
    kv_->plan_rounds(std::move(ends));
    kv_->reserve(context_tokens_max_);
    history_.clear();
}

Status Generator::check(std::span<const int32_t> ids) const {
    const int64_t wanted = this->tokens() + static_cast<int64_t>(ids.size());
    if (wanted > context_tokens_max_) {
        return make_error(ErrorCode::out_of_range, "a sequence of " + std::to_string(wanted) +
                                                       " tokens, must be at most the context of " +
                                                       std::to_string(context_tokens_max_));
    }
    return check_ids(ids, model_.spec.vocabulary);
}

Status Generator::append(std::span<const int32_t> ids, BatchPart::Logits logits) {
    if (decode_) decode_->reset();  // the last answer's copies take room too
    RONDO_TRY(stepper_->begin_chunk(*kv_, ids, logits, attention_));
    RONDO_TRY(stepper_->run_chunk(*kv_, stepper_->layers()));
    history_.insert(history_.end(), ids.begin(), ids.end());
    return Status::ok();
}

int64_t Generator::keep_prefix(std::span<const int32_t> ids) {
    const auto same = std::mismatch(history_.begin(), history_.end(), ids.begin(), ids.end()).first - history_.begin();
    int64_t kept = std::min<int64_t>(same, std::max<int64_t>(static_cast<int64_t>(ids.size()) - 1, 0));
    if (has_gaps()) {
        forget();
        kept = 0;
    }
    truncate(kept);
    return kept;
}

/// The last round of the tokens is a message by which rounds are chosen.
void Generator::see_rounds(int64_t count) {
    kv_->show_rounds();
    attention_.rounds = count > 0 ? rounds_.get() : nullptr;
    if (attention_.rounds == nullptr) return;
    int64_t begin = tokens();
    for (const int64_t end : kv_->planned_ends())
        if (end < tokens() + count) begin = std::max(begin, end);
    const int64_t first = kv_->planned_ends().empty() ? 0 : kv_->planned_ends().front();
    rounds_->begin_message(first, begin, tokens() + count);
}

void Generator::truncate(int64_t tokens) {
    kv_->truncate(tokens);
    history_.resize(static_cast<size_t>(tokens));
}

Status Generator::prefill(std::span<const int32_t> ids, bool answer_follows) {
    RONDO_TRY(check(ids));
    if (has_gaps()) {
        std::vector<int32_t> all = history_;
        all.insert(all.end(), ids.begin(), ids.end());
        forget();
        const Status computed = prefill(all, answer_follows);
        if (!computed) forget();  // a part of a conversation must not pass for the whole
        return computed;
    }
    see_rounds(answer_follows ? std::ssize(ids) : 0);
    for (size_t begin = 0; begin < ids.size();) {
        auto count = std::min(std::ssize(ids.subspan(begin)), options_.chunk_tokens);
        if (attention_.rounds != nullptr) count = attention_.rounds->within_chunk(tokens(), count);
        const auto chunk = ids.subspan(begin, static_cast<size_t>(count));
        const bool last = begin + chunk.size() == ids.size();
        RONDO_TRY(append(chunk, last ? BatchPart::Logits::last : BatchPart::Logits::none));
        begin += chunk.size();
    }
    if (ids.empty()) return Status::ok();
    RONDO_TRY(stepper_->reach_logits());
    logits_ = stepper_->chunk_logits();
    return answer_follows ? begin_answer(*stepper_, {kv_.get(), -1, decode_.get(), nullptr}) : Status::ok();
}

Status Generator::step(int32_t id, bool is_last) {
    RONDO_TRY(check({&id, 1}));
    const Stepper::Row row{kv_.get(), id, decode_.get(), options_.step_probe};
    Status stepped = step_in_line(*stepper_, {&row, 1}, is_last);
    const bool is_full = !stepped && stepped.error().code == ErrorCode::out_of_memory;
    if (is_full && decode_ && !has_gaps()) {
        decode_->reset();
        stepped = step_in_line(*stepper_, {&row, 1}, is_last);
    }
    RONDO_TRY(stepped);
    if (rounds_) rounds_->after_step(*kv_);
    history_.push_back(id);
    logits_ = stepper_->decode_logits(0);
    return Status::ok();
}

Status Generator::score(std::span<const int32_t> ids, const std::function<void(std::span<const float>)>& consume) {
    RONDO_TRY(check(ids));
    if (has_gaps()) {
        const std::vector<int32_t> all = history_;
        forget();
        if (const Status computed = prefill(all, false); !computed) {
            forget();  // likewise
            return computed;
        }
    }
    see_rounds(0);
    for (size_t begin = 0; begin < ids.size();) {
        const size_t count = std::min(ids.size() - begin, static_cast<size_t>(options_.chunk_tokens));
        RONDO_TRY(append(ids.subspan(begin, count), BatchPart::Logits::all));
        const auto rows = static_cast<int64_t>(count);
        for (int64_t first = 0; first < rows; first += logit_rows_max) {
            RONDO_ASSIGN(const auto some, stepper_->chunk_logits(first, std::min(logit_rows_max, rows - first)));
            RONDO_TRY(stepper_->reach_logits());
            consume(some);
        }
        begin += count;
    }
    return Status::ok();
}

Result<Generated> Generator::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                      const std::function<bool(std::string_view)>& on_text) {
    if (prompt.empty()) return make_error(ErrorCode::invalid_argument, "an empty prompt, must be at least one token");
    RONDO_TRY(options.check(model_));
    const auto start = std::chrono::steady_clock::now();
    RONDO_TRY(prefill(prompt));
    Generated made;
    made.prefill_seconds = seconds_since(start);
    const auto decode_start = std::chrono::steady_clock::now();
    Answer answer(model_, options, history_);
    const auto give = [&](const std::string& piece) {
        made.text += piece;
        return piece.empty() || !on_text || on_text(piece);
    };
    bool silenced = false;
    for (;;) {
        AnswerPiece piece = answer.next(logits_);
        made.ids.push_back(piece.id);
        if (!piece.logprobs.empty()) made.logprobs.push_back(std::move(piece.logprobs));
        silenced = !give(piece.text);
        if (piece.over || silenced || tokens() + 1 > context_tokens_max_) break;
        const Status stepped = step(piece.id);
        // Rounds leave blocks partly filled, so memory may end before the context does: the answer ends there too.
        if (!stepped.is_ok() && stepped.error().code == ErrorCode::out_of_memory) break;
        RONDO_TRY(stepped);
    }
    if (!silenced) give(answer.finish());
    made.finish_reason = silenced ? FinishReason::stop : answer.reason();
    made.decode_seconds = seconds_since(decode_start);
    return made;
}

}  // namespace rondo
