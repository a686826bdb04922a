#pragma once

#include <span>

#include "actors/ask.hpp"
#include "actors/conversation.hpp"
#include "actors/runtime.hpp"

namespace rondo {

/// Bytes that messages say, and how many a context can hold: more need not be tokenized, or kept.
size_t content_bytes(std::span<const ChatMessage> messages);
size_t content_bytes_max(const Runtime& runtime);

/// A turn of a conversation as it is asked for, or what is wrong with that here.
Result<TurnPtr> make_turn(const Ask& ask, const Conversation& conversation, const RuntimePtr& runtime);

}  // namespace rondo
