#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/handles.hpp"
#include "actors/places.hpp"
#include "model/answer.hpp"

namespace rondo {

/// What a user asks for: a turn of a conversation, or a plain text to be continued. Checked at the edge for what can be
/// checked without the conversation.
struct Ask {
    TurnId id = 0;
    ConversationName conversation;      ///< an empty id: one that ends with this turn
    bool goes_on = false;               ///< the conversation must be there already; else it is begun if need be
    std::vector<ChatMessage> messages;  ///< what is new in the conversation
    std::vector<int32_t> ids;           ///< instead of messages: a prompt as it is
    GenerateOptions options;
    int priority = 0;
    std::string method;  ///< how it attends: one of home's methods; "": the configured one
    double deadline_seconds = 600.0;
    std::shared_ptr<Places> places;  ///< of several turns that are let in together; none: this one alone

    listener_actor listener;
};

}  // namespace rondo
