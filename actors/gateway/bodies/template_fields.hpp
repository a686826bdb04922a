#pragma once

#include <span>
#include <string>

#include "actors/gateway/bodies/body_fields.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

/// What a request says to the chat template beside its messages.
struct TemplateFields {
    nlohmann::json variables = nlohmann::json::object();  ///< "chat_template_kwargs"; none is one of the server's own
    std::string reasoning_effort;                         ///< "": not given
};

/// How much is to be thought, where `name` is that field.
void read_effort(BodyFields& fields, const char* name, TemplateFields& into);
void read_template_fields(BodyFields& fields, TemplateFields& into);

/// The variables for this template, as Ask::template_variables has them; `messages` are what it will be given. What it
/// does not read would change nothing and is an error, unless it asks for nothing. Without a template nothing is said
/// here: the turn will say that there is none.
ApiResult<std::string> fit_to_template(const TemplateFields& fields, std::span<const ChatMessage> messages,
                                       const ChatTemplate* chat_template);

}  // namespace rondo
