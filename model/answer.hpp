#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/format/format_progress.hpp"
#include "model/generate_options.hpp"
#include "model/model.hpp"
#include "model/sampler.hpp"
#include "model/text/stop_strings.hpp"

namespace rondo {

enum class FinishReason : uint8_t { stop, length };

/// What one token adds to an answer.
struct AnswerPiece {
    int32_t id = -1;
    std::string text;                    ///< that became certain with it
    std::vector<TokenLogprob> logprobs;  ///< the chosen one, then the likeliest; when asked for
    bool over = false;                   ///< the answer ends here; `Answer::finish` has what is left of the text
};

/// An answer as it grows: chooses each token from the logits, turns ids into text, sees where it ends. Knows nothing of
/// devices. Not shared between threads. The model outlives it.
class Answer {
public:
    /// `options` as `check` allows them.
    Answer(const Model& model, GenerateOptions options, std::span<const int32_t> prompt);

    /// The next token, from its logits [vocabulary], which are changed in place.
    AnswerPiece next(std::span<float> logits);
    /// The text held back until now. Nothing comes after it.
    std::string finish();

    int64_t tokens() const { return tokens_; }
    /// Why it is over; `length` also for an answer that was cut off from outside.
    FinishReason reason() const { return stopped_ ? FinishReason::stop : FinishReason::length; }

private:
    bool ends(int32_t id) const;
    void begin_format(std::span<const int32_t> prompt);
    AnswerPiece stuck();

    const Model& model_;
    GenerateOptions options_;
    Sampler sampler_;
    StopStrings stops_;
    std::unique_ptr<Detokenizer> text_;  // none without a tokenizer
    std::unique_ptr<FormatProgress> format_;
    int64_t tokens_ = 0;
    bool stopped_ = false, cut_ = false;  // cut: by a stop string
    std::vector<int32_t> ending_;         // ids that end the answer, where there is a `tokens_min` or a format
};

}  // namespace rondo
