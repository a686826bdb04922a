#pragma once

#include <cstdint>

#include "actors/gateway/bodies/answer_parts.hpp"

namespace rondo {

/// A token's text as JSON can hold it: bytes that are no whole UTF-8 character become U+FFFD.
std::string token_text(const std::string& bytes);

/// A chat choice's "logprobs": {"content":[{token, logprob, bytes, top_logprobs}]}, or null without any.
OrderedJson chat_logprobs(const TurnDelta& delta, const TokenBytes& bytes_of);
/// The same as text. A whole answer's would be a tree of some 10 KB a token.
std::string chat_logprobs_text(const TurnDelta& delta, const TokenBytes& bytes_of);

/// A text completion's "logprobs", in the shape that API has had from the start, over the pieces of one choice's
/// stream: text_offset counts characters from the answer's beginning.
class CompletionLogprobs {
public:
    /// {tokens, token_logprobs, top_logprobs, text_offset} of the next piece, or null without any.
    OrderedJson next(const TurnDelta& delta, const TokenBytes& bytes_of);

private:
    int64_t characters_ = 0;  // begun so far
};

}  // namespace rondo
