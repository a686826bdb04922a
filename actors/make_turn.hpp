#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "actors/ask.hpp"
#include "actors/conversation.hpp"
#include "actors/turn.hpp"

namespace rondo {

/// Bytes that messages say, and how many a context can hold: more need not be tokenized, or kept.
size_t content_bytes(std::span<const ChatMessage> messages);
size_t content_bytes_max(const Runtime& runtime);

/// What is wrong with a turn here, whatever its conversation is: nothing need leave to make room for such a one.
Status check_ask(const Ask& ask, const Runtime& runtime);

/// A turn that can begin, and its prompt as its conversation rendered it: none where the ask brought ids.
struct NewTurn {
    TurnPtr turn;
    Conversation::Prompt prompt;
};
/// A turn of a conversation as it is asked for, or what is wrong with that here, beyond what `check_ask` finds, which
/// the router has called. It renders and tokenizes its text, on
/// any thread; `stop` may be requested on another, and the error is then ErrorCode::cancelled.
Result<NewTurn> make_turn(const Ask& ask, const Conversation& conversation, const RuntimePtr& runtime,
                          const std::stop_token& stop = {});

/// What there is to render for it: of all its messages, the earlier ones too, the bytes, and some more for each.
size_t text_bytes(const Ask& ask, const Conversation& conversation);

/// What has become of a turn's text.
struct NewTurnOf {
    TurnId turn = 0;
    Result<NewTurn> made;
};

/// Where a turn finds and shares KV: what was not computed exactly is shared by turns of its own method, settings and
/// budget only. A budget of 0 is the method's own.
PrefixSpace space_of(const Runtime& runtime, const Tenant& tenant, size_t method, int64_t budget_tokens);

/// Whom a turn is served for: its tenant, then its conversation; a turn without one is alone.
std::string flow_of(const Ask& ask);

}  // namespace rondo
