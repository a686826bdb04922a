#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/measure/eval/contestant.hpp"
#include "cli/measure/eval/roundtalk.hpp"
#include "model/model.hpp"

namespace rondo::cli::eval {

/// Round `current` of a dialogue. `answers` stand in the history instead of the dialogue's own, where there are any;
/// without `history` the last message stands alone.
Result<PromptedQuestion> make_question(const Model& model, std::span<const DialogueRound> dialogue, size_t current,
                                       std::span<const std::string> answers, bool history);

/// Whether these ids are the answer that is right. The last one may be any that ends an answer: a model may have
/// several, and its template decides which stands behind a turn.
bool is_answered(const Model& model, const PromptedQuestion& question, std::span<const int32_t> ids);

}  // namespace rondo::cli::eval
