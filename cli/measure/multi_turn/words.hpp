#pragma once

#include <cstdint>
#include <string>

#include "cli/measure/multi_turn/seeded.hpp"

namespace rondo::cli::multi_turn {

/// `count` everyday words drawn at random. They mean nothing together; what they cost a tokenizer is like real text.
std::string draw_words(Seeded& random, int64_t count);

/// About so many tokens of words. A text of one token is one word.
inline std::string draw_tokens(Seeded& random, int64_t tokens, double tokens_per_word) {
    if (tokens <= 0) return {};
    const auto words = static_cast<int64_t>(std::llround(static_cast<double>(tokens) / tokens_per_word));
    return draw_words(random, words > 0 ? words : 1);
}

}  // namespace rondo::cli::multi_turn
