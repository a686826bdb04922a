#include "model/generator.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "config/checked.hpp"

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
    made->context_tokens_max_ = options.context_tokens_max == 0
                                    ? spec.context_tokens
                                    : std::min(options.context_tokens_max, spec.context_tokens);
    // Within its window a model with sliding-window attention attends to everything, which is what is computed here.
    if (spec.sliding_window > 0) made->context_tokens_max_ = std::min(made->context_tokens_max_, spec.sliding_window);
    const KvShape shape = Transformer::kv_shape(spec, options.kv_type);
    // Room for the whole context, since pages are touched only when used; twice the full blocks, since each round may
    // leave one partly filled.
    int64_t blocks = 2 * ceil_div<int64_t>(made->context_tokens_max_, kv_block_tokens) + 1;
    // Chosen keys are copied, those of the next selection while those of the last one serve.
    if (options.decode.method != DecodeAttention::Method::dense || options.decode_method != nullptr)
        blocks += 2 * (ceil_div<int64_t>(std::min<int64_t>(options.decode.budget_tokens, made->context_tokens_max_),
                                         kv_block_tokens) +
                       2);
    const size_t block_bytes = shape.block_bytes(LayerGroup::lower) + shape.block_bytes(LayerGroup::upper);
    if (options.kv_bytes_max > 0) {
        blocks = std::min(blocks, static_cast<int64_t>(options.kv_bytes_max / block_bytes));
        if (blocks == 0) {
            return make_error(ErrorCode::out_of_memory, "a block of KV takes " + std::to_string(block_bytes) +
                                                            " bytes; memory.device_kv_mib is below that");
        }
        made->context_tokens_max_ = std::min(made->context_tokens_max_, blocks * kv_block_tokens);
    }
    RONDO_ASSIGN(made->pool_, KvPool::create(device, shape, static_cast<size_t>(blocks)));
    made->kv_ = std::make_unique<SequenceKv>(*made->pool_);
    made->kv_->reserve(made->context_tokens_max_);
    made->history_.reserve(static_cast<size_t>(made->context_tokens_max_));
    const int64_t rows_max = std::min(options.chunk_tokens, made->context_tokens_max_);
    made->options_.chunk_tokens = rows_max;
    RONDO_ASSIGN(made->transformer_, Transformer::create(*model.weights, *made->pool_, device, rows_max));
    RONDO_ASSIGN(Batch batch, Batch::create(device, spec, {rows_max, 1, made->context_tokens_max_}));
    made->batch_ = std::make_unique<Batch>(std::move(batch));
    RONDO_TRY(made->create_attention());
    const auto logits = static_cast<size_t>(logit_rows_max * spec.vocabulary);
    RONDO_ASSIGN(made->device_logits_, device.allocate(logits * sizeof(float)));
    made->host_logits_.resize(static_cast<size_t>(spec.vocabulary));
    return made;
}

Status Generator::create_attention() {
    if (options_.prefill.method != PrefillAttention::Method::dense) {
        RONDO_ASSIGN(prefill_, SparsePrefill::create(model_.spec, device_, options_.prefill));
        prefill_->measure(options_.measure ? 1 : 0);
    }
    return create_decode();
}

Status Generator::create_decode() {
    decode_.reset();
    StepAttention::Options how = StepAttention::options_of(options_.decode);
    if (options_.decode_method != nullptr) how.method = options_.decode_method;
    how.give_up_blocks = options_.give_up_blocks;
    if (options_.probe != nullptr && how.give_up_blocks && how.method != nullptr && how.method->evicts())
        return make_error(ErrorCode::invalid_argument, "a probe of keys that are given up; their blocks must be kept");
    RONDO_ASSIGN(decode_, StepAttention::create(model_.spec, *pool_, device_, how));
    attention_ = {prefill_.get(), decode_.get(), options_.probe};
    return Status::ok();
}

Status Generator::answer_by(const DecodeAttention& decode, std::shared_ptr<const DecodeSelection> method) {
    options_.decode = decode;
    options_.decode_method = std::move(method);
    return create_decode();
}

void Generator::forget() {
    *kv_ = SequenceKv(*pool_);
    kv_->reserve(context_tokens_max_);
    history_.clear();
}

Status Generator::check(std::span<const int32_t> ids) const {
    const int64_t wanted = this->tokens() + static_cast<int64_t>(ids.size());
    if (wanted > context_tokens_max_) {
        return make_error(ErrorCode::out_of_range, "a sequence of " + std::to_string(wanted) +
                                                       " tokens; the context holds " +
                                                       std::to_string(context_tokens_max_));
    }
    return check_ids(ids, model_.spec.vocabulary);
}

Status Generator::run(BatchPart part) {
    part.attention = &attention_;
    batch_->clear();
    RONDO_TRY(batch_->add(part));
    const int64_t before = tokens();
    RONDO_TRY(batch_->prepare());
    history_.insert(history_.end(), part.ids.begin(), part.ids.end());
    const Status status = transformer_->forward(*batch_);
    if (!status.is_ok()) truncate(before);  // keys that were not all written must not be found again
    return status;
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

void Generator::truncate(int64_t tokens) {
    kv_->truncate(tokens);
    history_.resize(static_cast<size_t>(tokens));
}

Status Generator::read_logits(int64_t first, int64_t rows, std::span<float> out) {
    const Tensor logits = Tensor::of(device_logits_.data(), DType::f32, rows, model_.spec.vocabulary);
    RONDO_TRY(transformer_->logits(*batch_, first, logits));
    RONDO_TRY(device_.copy(out.data(), logits.data, out.size_bytes(), StreamId::compute));
    return device_.wait(StreamId::compute);
}

Status Generator::prefill(std::span<const int32_t> ids, bool answer_follows) {
    RONDO_TRY(check(ids));
    if (has_gaps()) {
        std::vector<int32_t> all = history_;
        all.insert(all.end(), ids.begin(), ids.end());
        forget();
        return prefill(all, answer_follows);
    }
    for (size_t begin = 0; begin < ids.size();) {
        const size_t count = std::min(ids.size() - begin, static_cast<size_t>(options_.chunk_tokens));
        const bool last = begin + count == ids.size();
        RONDO_TRY(run({kv_.get(), ids.subspan(begin, count), Rows::bulk,
                       last ? BatchPart::Logits::last : BatchPart::Logits::none}));
        begin += count;
    }
    if (ids.empty()) return Status::ok();
    RONDO_TRY(read_logits(0, 1, host_logits_));
    if (decode_ == nullptr || !answer_follows) return Status::ok();
    decode_->after_prefill(*kv_);
    return decode_->work_now();
}

Status Generator::step(int32_t token) {
    if (decode_ != nullptr) {
        if (decode_->due()) RONDO_TRY(decode_->work_now());
        decode_->before_step(*kv_);
    }
    RONDO_TRY(run({kv_.get(), {&token, 1}, Rows::invariant, BatchPart::Logits::last}));
    RONDO_TRY(read_logits(0, 1, host_logits_));
    if (decode_ == nullptr) return Status::ok();
    decode_->after_step(*kv_);
    return decode_->work_now();
}

Status Generator::score(std::span<const int32_t> ids, const std::function<void(std::span<const float>)>& consume) {
    RONDO_TRY(check(ids));
    if (has_gaps()) {
        const std::vector<int32_t> all = history_;
        forget();
        RONDO_TRY(prefill(all, false));
    }
    std::vector<float> rows(static_cast<size_t>(logit_rows_max * model_.spec.vocabulary));
    for (size_t begin = 0; begin < ids.size();) {
        const size_t count = std::min(ids.size() - begin, static_cast<size_t>(options_.chunk_tokens));
        RONDO_TRY(run({kv_.get(), ids.subspan(begin, count), Rows::bulk, BatchPart::Logits::all}));
        for (int64_t first = 0; first < batch_->logit_rows(); first += logit_rows_max) {
            const int64_t some = std::min(logit_rows_max, batch_->logit_rows() - first);
            const std::span<float> out(rows.data(), static_cast<size_t>(some * model_.spec.vocabulary));
            RONDO_TRY(read_logits(first, some, out));
            consume(out);
        }
        begin += count;
    }
    return Status::ok();
}

Result<Generated> Generator::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                      const std::function<bool(std::string_view)>& on_text) {
    if (prompt.empty())
        return make_error(ErrorCode::invalid_argument, "an empty prompt; at least one token would be right");
    RONDO_TRY(options.check(model_));
    const auto start = std::chrono::steady_clock::now();
    RONDO_TRY(prefill(prompt));
    Generated made;
    made.prefill_seconds = seconds_since(start);
    const auto decode_start = std::chrono::steady_clock::now();
    Answer answer(model_, options, prompt);
    const auto give = [&](const std::string& piece) {
        made.text += piece;
        return piece.empty() || !on_text || on_text(piece);
    };
    bool silenced = false;
    for (;;) {
        AnswerPiece piece = answer.next(host_logits_);
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
