#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "actors/conversation.hpp"

namespace rondo {

/// How many of a prompt's ids spell what stands before the first thing that somebody said: system prompts, tools, and
/// what the template adds. The prompt is the one that `messages` make behind the conversation. 0: there are no such
/// ids, or the template does not say where they end.
int64_t preamble_tokens(const Model& model, const Conversation& conversation, std::span<const ChatMessage> messages,
                        const GivenToTemplate& given, std::span<const int32_t> ids, const std::stop_token& stop);

}  // namespace rondo
