#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "actors/gateway/bodies/body_fields.hpp"
#include "model/text/chat_template.hpp"
#include "model/tools/call_style.hpp"
#include "model/tools/tool_use.hpp"

namespace rondo {

/// What a request says of tools, before one knows the model.
struct ToolFields {
    std::string list;  ///< JSON, with members in the order of the body; "": there are none
    ToolChoice choice;
};

/// `tool_choice` and `parallel_tool_calls`, when the list is known. A function is named in a member of its own or, as
/// the Responses API has it, beside its type (`is_flat`).
void read_tool_choice(BodyFields& fields, bool is_flat, ToolFields& into);
/// `tools`, and these.
void read_tool_fields(BodyFields& fields, std::string_view body, ToolFields& into);

/// What they come to for a model with this template and this way to write calls (null: none), or what is wrong with
/// them there; null where nothing changes by them. `text` is what an answer that is a text must be, or null.
ApiResult<std::shared_ptr<const ToolUse>> fit_tools(const ToolFields& fields, const ChatTemplate* chat_template,
                                                    const CallStyle* style, std::shared_ptr<const AnswerFormat> text);

}  // namespace rondo
