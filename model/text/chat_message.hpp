#pragma once

#include <string>

namespace rondo {

/// What somebody says in a chat.
struct ChatMessage {
    std::string role;  ///< as is_chat_role says
    std::string content;
    /// Its further members as a JSON object's text, in OpenAI's form ("name", "tool_calls" …), for a template that
    /// reads them; "" for none. "content": null here says that there is no content, which is not the same as "".
    std::string more_json = {};
};

}  // namespace rondo
