#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/api/answer_request.hpp"

namespace rondo {

/// The body of POST /v1/completions, checked. README.md lists the fields.
struct CompletionRequest : AnswerRequest {
    std::variant<std::string, std::vector<int32_t>> prompt;  ///< text, or ids of the vocabulary; not empty
};

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, int64_t vocabulary);

}  // namespace rondo
