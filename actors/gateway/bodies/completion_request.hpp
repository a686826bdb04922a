#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/gateway/bodies/answer_request.hpp"

namespace rondo {

/// The body of POST /v1/completions, checked. README.md lists the fields.
struct CompletionRequest : AnswerRequest {
    using Prompt = std::variant<std::string, std::vector<int32_t>>;  ///< text, or ids of the vocabulary; not empty

    std::vector<Prompt> prompts;  ///< at least one; each gets `n` answers
    bool echo = false;            ///< answers begin with their prompt
};

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, int64_t vocabulary);

}  // namespace rondo
