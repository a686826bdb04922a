#pragma once

#include <span>
#include <string>

#include "actors/gateway/bodies/answer_parts.hpp"
#include "actors/gateway/bodies/token_logprobs.hpp"

namespace rondo {

/// The JSON of POST /v1/completions without "stream". Every answer ended with stop or length.
std::string completion_response(const AnswerHead& head, std::span<const FinishedAnswer> answers,
                                const TokenBytes& bytes_of);

/// The events of a stream: as a chat's, but that no role comes first. `logprobs` is the choice's own.
std::string completion_delta_event(const AnswerHead& head, int index, const TurnDelta& delta,
                                   CompletionLogprobs& logprobs, const TokenBytes& bytes_of);
std::string completion_finish_event(const AnswerHead& head, int index, const TurnEnd& end);
std::string completion_usage_event(const AnswerHead& head, const TurnUsage& usage);

}  // namespace rondo
