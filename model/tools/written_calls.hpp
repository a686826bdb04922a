#pragma once

#include <string>
#include <string_view>

#include "model/text/chat_message.hpp"
#include "model/tools/call_style.hpp"

namespace rondo {

/// What a model has answered, as a message: its calls of tools are such, where it has whole ones in this style. So a
/// template gets it as it would from a client who was told of the calls.
ChatMessage answer_message(std::string answer, const CallStyle* style);

/// The calls of a message as the style writes them; "" where it has none.
std::string written_calls(const ChatMessage& message, const CallStyle* style);

}  // namespace rondo
