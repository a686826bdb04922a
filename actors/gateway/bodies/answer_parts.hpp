#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "actors/gateway/bodies/json_text.hpp"
#include "actors/turn_events.hpp"

namespace rondo {

/// What every response and every chunk of one request carries.
struct AnswerHead {
    std::string id;  ///< "chatcmpl-…", "cmpl-…"
    int64_t created_s = 0;
    std::string model;
    bool include_usage = false;  ///< of a stream: then its chunks say "usage": null until the one that has it
    size_t each_prompt = 0;      ///< answers to one prompt, before those to the next; 0: all are to one
};

/// One of a request's `n` answers, whole.
struct FinishedAnswer {
    TurnDelta delta;  ///< all of them in one; logprobs by id, or empty when not asked for
    TurnEnd end;
};

/// The bytes of a token, which may be a part of a UTF-8 character.
using TokenBytes = std::function<std::string(int32_t)>;

/// "stop", "length" or "tool_calls"; null when the turn was cancelled or failed.
OrderedJson finish_reason_json(TurnOutcome outcome, bool calls = false);
/// Why a turn has no answer. `end` is cancelled or failed.
Error error_of(const TurnEnd& end);

/// Of all answers: each prompt counts once (as the first of its answers met it), the answers together.
TurnUsage usage_of(std::span<const FinishedAnswer> answers, size_t each_prompt = 0);
/// Answers run side by side, so each stage is as long as the slowest of them; preemptions are summed.
TurnTimings timings_of(std::span<const FinishedAnswer> answers);

OrderedJson usage_json(const TurnUsage& usage);
/// In milliseconds.
OrderedJson timings_json(const TurnTimings& timings);
/// Its method; densities, mass held and selections where that is not dense.
OrderedJson attention_json(const TurnAttention& attention);
/// How the first answer to each prompt met it, and the answers together.
TurnAttention attention_of(std::span<const FinishedAnswer> answers, size_t each_prompt = 0);

/// id, object, created, model
OrderedJson head_json(const AnswerHead& head, const char* object);
/// A whole response: what `text_of` makes of each answer, and what they have in common.
std::string whole_answer_text(const AnswerHead& head, const char* object, std::span<const FinishedAnswer> answers,
                              const std::function<std::string(size_t index, const FinishedAnswer&)>& text_of);
/// A chunk of a stream with one choice.
OrderedJson chunk_json(const AnswerHead& head, const char* object, OrderedJson choice);
/// The last chunk of a stream whose head asks for usage; "" else.
std::string usage_event(const AnswerHead& head, const char* object, const TurnUsage& usage);

}  // namespace rondo
