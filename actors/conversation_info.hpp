#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/turn_events.hpp"
#include "model/text/chat_message.hpp"

/// What a host may know of conversations.
namespace rondo {

using Tenant = std::string;

/// A conversation as its client names it. Names of different tenants are different conversations.
struct ConversationName {
    Tenant tenant;
    std::string id;
    bool operator==(const ConversationName&) const = default;
    auto operator<=>(const ConversationName&) const = default;
};

/// A round as its user sees it: the messages that asked, and the answer.
struct Round {
    std::vector<ChatMessage> asked;
    std::string answer;
    int64_t tokens = 0;                       ///< its own: prompt and answer, without the rounds before it
    std::optional<TurnFigures> figures = {};  ///< none: its client brought it along
};

struct ConversationInfo {
    std::string id;
    std::string title;
    std::vector<ChatMessage> preamble;
    int64_t tokens = 0;
    std::vector<Round> rounds;
    size_t bytes = 0;           ///< that remembering it takes
    bool is_answering = false;  ///< a turn of it is under way, or waits
};

/// What a list tells of a conversation.
struct ConversationFigures {
    int64_t tokens = 0;
    int64_t rounds = 0;
    size_t bytes = 0;
    std::string title = {};
};

struct ListedConversation {
    std::string id;
    ConversationFigures figures;
};

/// A part of a tenant's list of conversations, the newest first.
struct ConversationPage {
    std::vector<ListedConversation> conversations;
    bool has_more = false;
};

/// Which part is wanted.
struct PageOf {
    Tenant tenant;
    std::string after;  ///< the id of the conversation before it; "": the beginning
    size_t limit = 20;
};

using ConversationInfoPtr = std::shared_ptr<const ConversationInfo>;
using ConversationPagePtr = std::shared_ptr<const ConversationPage>;
using RoundList = std::vector<int64_t>;
/// Messages that stand before a conversation's first round.
using Preamble = std::vector<ChatMessage>;

}  // namespace rondo
