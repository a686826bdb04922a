#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/text/chat_message.hpp"
#include "model/text/tokenizer.hpp"
#include "model/tools/call_style.hpp"

namespace rondo {

/// Where answers end in the text that a template made of these messages, in bytes and ascending. What a template has
/// changed is left out, and so is what ends the text; behind many changed ones the rest is not looked for. Behind an
/// answer stands what ended it, whose KV was not computed when it was given: so that is where its round ended. `style`
/// is how the template writes calls of tools; null where that is not known.
std::vector<size_t> answer_ends(std::string_view text, std::span<const ChatMessage> messages,
                                const CallStyle* style = nullptr);

/// How many of `ids` spell no more than so many bytes of their text, for each of these places. Nothing where they do
/// not spell the text as it is.
/// `is_behind_ids`: the text goes on behind others, so no space was put before it.
std::vector<int64_t> tokens_up_to(std::span<const size_t> places, std::span<const int32_t> ids, std::string_view text,
                                  const Tokenizer& tokenizer, bool is_behind_ids = false);

}  // namespace rondo
