#pragma once

#include <span>
#include <string>

#include "actors/gateway/bodies/answer_parts.hpp"

namespace rondo {

/// The JSON of POST /v1/chat/completions without "stream". Every answer ended with stop or length.
std::string chat_response(const AnswerHead& head, std::span<const FinishedAnswer> answers, const TokenBytes& bytes_of);

/// The events of a stream, in this order for each choice: its role, its deltas, its finish. Then, once all choices have
/// finished, the usage and stream_done(); a choice that has no answer ends the stream with stream_error instead.
std::string chat_role_event(const AnswerHead& head, int index);
/// "" when the delta has nothing to tell yet.
std::string chat_delta_event(const AnswerHead& head, int index, const TurnDelta& delta, const TokenBytes& bytes_of);
std::string chat_finish_event(const AnswerHead& head, int index, const TurnEnd& end);
/// "" unless the head asks for it.
std::string chat_usage_event(const AnswerHead& head, const TurnUsage& usage);

}  // namespace rondo
