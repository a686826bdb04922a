#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "model/model.hpp"

namespace rondo::cli::attention {

/// What was said: perhaps a system's message, then users' and assistants' in turn. The last question is the one whose
/// attention is looked at; its answer may be missing.
struct Dialogue {
    std::string name;  ///< for errors and reports: where it comes from
    std::vector<ChatMessage> messages;
    std::vector<size_t> evidence;  ///< rounds before the last one that hold what its answer needs, ascending, from 0

    bool has_answer() const { return !messages.empty() && messages.back().role == "assistant"; }
    size_t rounds() const;
};

/// The same as the model reads it. A round is a question and its answer; what stands before the first one (a system's
/// message) belongs to none.
struct DialogueTokens {
    std::string name;
    std::vector<int32_t> ids;          ///< the prompt, then the tokens of the last answer
    size_t prompt = 0;                 ///< tokens up to where the last answer begins
    std::vector<size_t> round_begins;  ///< ascending; the last one is the last question's
    size_t question_begin = 0;      ///< where the last question's words begin: behind the header that opens its round
    std::vector<size_t> turn_ends;  ///< what the model has read when an answer begins; ascending, the last: `prompt`
    std::vector<size_t> evidence;   ///< as in Dialogue

    size_t past_rounds() const { return round_begins.size() - 1; }
};

/// Tokens of all of it, without looking for rounds.
Result<size_t> count_tokens(const Model& model, const Dialogue& dialogue);
/// Rounds are found by the template itself: what it prints of the messages so far begins what it prints of all.
Result<DialogueTokens> tokenize(const Model& model, const Dialogue& dialogue);

}  // namespace rondo::cli::attention
