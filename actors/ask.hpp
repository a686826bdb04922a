#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/front.hpp"
#include "model/generate_options.hpp"
#include "model/tools/tool_use.hpp"

namespace rondo {

class Places;

/// What a user asks for: a turn of a conversation, or a plain text to be continued. Whoever sent it must not change it
/// any more.
struct Ask {
    TurnId id = 0;                      ///< 0: the engine gives it one; else one that Engine::new_turn_id gave
    ConversationName conversation;      ///< an empty id: one that ends with this turn
    bool goes_on = false;               ///< the conversation must be there already; else it is begun if need be
    std::vector<ChatMessage> messages;  ///< what is new in the conversation
    std::vector<int32_t> ids;           ///< instead of messages: a prompt as it is
    /// Instead of both: what is known of the conversation is brought to memory, and nothing is answered.
    bool warms = false;
    /// What the chat template is given beside the messages ("enable_thinking" …): a JSON object's text, as
    /// check_template_variables allows it; "" for nothing.
    std::string template_variables;
    /// Tools that the template is told of and the answer may call; null: none. Then `options` have no format. The calls
    /// are told apart from the text.
    std::shared_ptr<const ToolUse> tools;
    /// Whoever asked is told nothing before the end: of an answer that is cut off, nothing was said.
    bool told_at_end = false;
    bool thoughts_apart = false;  ///< what the model thinks before its answer is told apart, where it shows that
    GenerateOptions options;
    int priority = 0;
    std::string method;         ///< how it attends: one of runtime's methods; "": the configured one
    int64_t budget_tokens = 0;  ///< that its answer attends to, within what is configured; 0: the method's own
    double deadline_seconds = 600.0;
    std::shared_ptr<Places> places;  ///< of turns that our gateway has let in together; none: this one alone

    listener_actor listener;  ///< hears of this turn alone

    /// Thoughts are told apart: it is wanted, and there may be some.
    bool tells_thoughts(const Model& model) const;
    /// What can be known without the conversation: each field in its range.
    Status check() const;
};

/// A conversation's name as it may be told or kept: of no size or character that means something else elsewhere.
Status check_name(const ConversationName& name);

}  // namespace rondo
