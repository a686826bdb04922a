#include "actors/ask.hpp"

#include "actors/gateway/bodies/conversation_id.hpp"
#include "config/limits.hpp"
#include "model/model.hpp"
#include "model/text/chat_template.hpp"
#include "model/text/template_variables.hpp"

namespace rondo {

namespace {

Error wrong(std::string what) {
    return make_error(ErrorCode::invalid_argument, std::move(what));
}

}  // namespace

Status check_name(const ConversationName& name) {
    const size_t bytes_max = limits::conversation_id_bytes_max;
    // Name spaces of the prefix cache begin with the tenant, up to the first line's end.
    if (!name.tenant.empty() && !is_conversation_id(name.tenant))
        return wrong("the tenant must have at most " + std::to_string(bytes_max) + " bytes, all printable UTF-8");
    if (!name.id.empty() && !is_conversation_id(name.id))
        return wrong("the conversation's id must have at most " + std::to_string(bytes_max) +
                     " bytes, all printable UTF-8");
    return Status::ok();
}

bool Ask::tells_thoughts(const Model& model) const {
    return thoughts_apart && ids.empty() && model.shows_thoughts;
}

Status Ask::check() const {
    RONDO_TRY(check_name(conversation));
    if (goes_on && conversation.id.empty()) return wrong("goes_on needs a conversation's id");
    if (warms && (conversation.id.empty() || !messages.empty() || !ids.empty()))
        return wrong("a turn that warms a conversation must have its id, and neither messages nor ids");
    if (!warms && messages.empty() && ids.empty()) return wrong("the turn asks nothing: it must have messages or ids");
    if (tools && (!ids.empty() || options.format))
        return wrong(ids.empty() ? "tools and an answer's format: that must be the text of their ToolChoice"
                                 : "tools with a prompt of ids, which no template is given; must be messages");
    if (messages.size() > limits::messages_max)
        return wrong("the turn has " + std::to_string(messages.size()) + " messages; at most " +
                     std::to_string(limits::messages_max) + " may come at once");
    RONDO_TRY(check_roles(messages));
    RONDO_TRY(check_template_variables(template_variables));
    if (!(deadline_seconds > 0.0 && deadline_seconds <= limits::deadline_s_max))  // nor a NaN
        return wrong("deadline_seconds must be above 0 and at most " +
                     std::to_string(static_cast<int64_t>(limits::deadline_s_max)));
    if (priority < -limits::priority_max || priority > limits::priority_max)
        return wrong("priority must be from -" + std::to_string(limits::priority_max) + " to " +
                     std::to_string(limits::priority_max));
    return Status::ok();
}

}  // namespace rondo
