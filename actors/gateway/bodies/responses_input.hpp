#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/gateway/bodies/body_fields.hpp"
#include "model/text/chat_message.hpp"

namespace rondo {

/// `input` of OpenAI's Responses API: a text, or a list of messages, calls, their outputs and what was thought. An
/// answer's text and its calls, which are items of their own there, become one message.
void read_responses_input(BodyFields& fields, std::vector<ChatMessage>& into);

}  // namespace rondo
