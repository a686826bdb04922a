#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "actors/gateway/bodies/answer_request.hpp"

namespace rondo {

/// A schema with its name, in members of `named`, which stands at `where`. `ordered` is the same with its members in
/// their order.
void read_named_schema(BodyFields& named, const nlohmann::ordered_json& ordered, const std::string& where,
                       AnswerRequest& into);

/// What the answer must be, of a request whose body this is. Comes behind read_tokens_min.
void read_response_format(BodyFields& fields, std::string_view body, AnswerRequest& into);

}  // namespace rondo
