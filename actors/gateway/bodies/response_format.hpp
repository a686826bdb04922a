#pragma once

#include <string_view>

#include "actors/gateway/bodies/answer_request.hpp"

namespace rondo {

/// What the answer must be, of a request whose body this is. Comes behind read_tokens_min.
void read_response_format(BodyFields& fields, std::string_view body, AnswerRequest& into);

}  // namespace rondo
