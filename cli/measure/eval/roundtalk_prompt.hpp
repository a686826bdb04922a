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

}  // namespace rondo::cli::eval
