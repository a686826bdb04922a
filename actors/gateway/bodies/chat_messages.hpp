#pragma once

#include <string_view>
#include <vector>

#include "actors/gateway/bodies/body_fields.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

/// Reads a list of chat messages as OpenAI's API writes them; at least one where the member is there. "developer" is
/// "system". The text parts of one message become lines of its content, as vLLM and llama.cpp have it.
/// What else a message may have goes to the template (ChatMessage::more_json).
void read_messages(BodyFields& fields, std::string_view name, std::vector<ChatMessage>& into);

/// Whether a message that was read so has some.
bool has_tool_calls(const ChatMessage& message);

/// A call's arguments, which come as the text of a JSON object: that text, as a template gets it. `levels` of the body
/// are around it.
std::string read_arguments(BodyFields& fields, size_t levels);
/// A call as a message's further members have it; `arguments` are JSON, whose order a prompt depends on.
std::string call_text(const std::string& id, const std::string& name, const std::string& arguments);
/// A message's further members: `members` are JSON texts that each end with a comma; "" for none.
std::string further_members(std::string members);

}  // namespace rondo
