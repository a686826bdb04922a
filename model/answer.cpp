#include "model/answer.hpp"

#include <algorithm>
#include <limits>

#include "config/limits.hpp"

namespace rondo {

Status GenerateOptions::check(int64_t vocabulary) const {
    if (tokens_max < 1) {
        return make_error(ErrorCode::out_of_range, "max_tokens is " + std::to_string(tokens_max) + ", must be 1 to " +
                                                       std::to_string(std::numeric_limits<int64_t>::max()));
    }
    if (tokens_min < 0 || tokens_min > tokens_max) {
        return make_error(ErrorCode::out_of_range, "min_tokens is " + std::to_string(tokens_min) +
                                                       ", must be 0 to max_tokens, which is " +
                                                       std::to_string(tokens_max));
    }
    if (tokens_min > 0 && format != nullptr)
        return make_error(ErrorCode::invalid_argument, "min_tokens is " + std::to_string(tokens_min) +
                                                           ", must be 0 where the answer has a format, which ends it");
    RONDO_TRY(sampling.check(vocabulary));
    if (stop_ids.size() > limits::stop_ids_max) {
        return make_error(ErrorCode::out_of_range, std::to_string(stop_ids.size()) + " stop ids, must be at most " +
                                                       std::to_string(limits::stop_ids_max));
    }
    for (const int32_t id : stop_ids) {
        if (id >= 0 && id < vocabulary) continue;
        return make_error(ErrorCode::out_of_range,
                          "stop id is " + std::to_string(id) + ", must be 0 to " + std::to_string(vocabulary - 1));
    }
    return StopStrings::check(stops);
}

Status GenerateOptions::check(const Model& model) const {
    RONDO_TRY(check(model.spec.vocabulary));
    if (model.tokenizer != nullptr || (stops.empty() && format == nullptr)) return {};
    if (format != nullptr)
        return make_error(ErrorCode::invalid_argument,
                          "an answer's format, but model " + model.name + " has no tokenizer; must be left out");
    return make_error(ErrorCode::invalid_argument,
                      "a stop string, but model " + model.name + " has no tokenizer; must be stop ids");
}

namespace {

/// None without a tokenizer.
std::unique_ptr<Detokenizer> detokenizer(const Model& model, const GenerateOptions& options,
                                         std::span<const int32_t> prompt) {
    if (model.tokenizer == nullptr) return nullptr;
    const auto has_text = [&](int32_t id) { return !model.tokenizer->bytes_of(id, options.special_text).empty(); };
    const bool continues = options.continues_text && std::ranges::any_of(prompt, has_text);
    return std::make_unique<Detokenizer>(*model.tokenizer, options.special_text, continues);
}

}  // namespace

Answer::Answer(const Model& model, GenerateOptions options, std::span<const int32_t> prompt)
    : model_(model),
      options_(std::move(options)),
      sampler_(options_.sampling, model.spec.vocabulary),
      stops_(options_.stops),
      text_(detokenizer(model, options_, prompt)) {
    sampler_.observe_prompt(prompt);
    if (options_.tokens_min == 0 && options_.format == nullptr) return;
    ending_ = options_.stop_ids;
    if (!options_.ignore_eos) ending_.insert(ending_.end(), model.spec.eos_ids.begin(), model.spec.eos_ids.end());
    if (options_.format != nullptr) begin_format(prompt);
}

void Answer::begin_format(std::span<const int32_t> prompt) {
    using Begins = AnswerFormat::Begins;
    Begins begins = Begins::with_answer;
    if (options_.thinks_first)
        begins = model_.ends_in_thought(prompt) ? Begins::within_thought : Begins::maybe_with_thought;
    const bool spaced = model_.tokenizer->strips_first_space() && !options_.continues_text;
    format_ = std::make_unique<FormatProgress>(options_.format, options_.format->begin(begins, spaced),
                                               model_.sorted_tokens(), ending_, model_.spec.vocabulary);
}

bool Answer::ends(int32_t id) const {
    if (!options_.ignore_eos && model_.ends_answer(id)) return true;
    return std::ranges::find(options_.stop_ids, id) != options_.stop_ids.end();
}

AnswerPiece Answer::next(std::span<float> logits) {
    const bool may_end = tokens_ >= options_.tokens_min;
    const auto allowed = format_ != nullptr ? format_->allowed() : std::span<const uint64_t>();
    if (format_ != nullptr && allowed.empty()) return stuck();
    const Sampled sampled = sampler_.next(logits, may_end ? std::span<const int32_t>() : ending_, allowed);
    AnswerPiece piece;
    piece.id = sampled.id;
    if (options_.sampling.logprobs >= 0) {
        piece.logprobs.push_back({sampled.id, sampled.logprob});
        piece.logprobs.insert(piece.logprobs.end(), sampled.top.begin(), sampled.top.end());
    }
    ++tokens_;
    stopped_ = may_end && ends(sampled.id);
    if (!stopped_ && text_ != nullptr) {
        piece.text = stops_.push(text_->push(sampled.id), stopped_, may_end);
        cut_ = stopped_;
    }
    if (!stopped_ && format_ != nullptr) {
        format_->take(model_.answer_bytes(sampled.id));
        stopped_ = format_->is_whole();
    }
    piece.over = stopped_ || tokens_ >= options_.tokens_max;
    return piece;
}

/// No token of the vocabulary goes on with the format: the answer is cut off here.
AnswerPiece Answer::stuck() {
    AnswerPiece piece;
    piece.id = model_.spec.eos_ids.empty() ? 0 : model_.spec.eos_ids.front();
    piece.over = true;
    ++tokens_;
    return piece;
}

std::string Answer::finish() {
    if (text_ == nullptr) return {};
    std::string text;
    if (!cut_) {
        bool ended = false;
        text = stops_.push(text_->finish(), ended, tokens_ > options_.tokens_min);
        stopped_ = stopped_ || ended;
        cut_ = cut_ || ended;
    }
    return text + stops_.finish();
}

}  // namespace rondo
