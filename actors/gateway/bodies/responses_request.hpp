#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/gateway/bodies/chat_request.hpp"
#include "actors/gateway/bodies/json_text.hpp"

namespace rondo {

/// The body of POST /v1/responses, checked. README.md lists the fields.
struct ResponsesRequest : ChatRequest {
    bool is_stored = true;  ///< it is a conversation, which another may go on with
    std::string previous;   ///< the id of the one that it goes on with; "": none
    OrderedJson told_back;  ///< what the response repeats of it
};

ApiResult<ResponsesRequest> parse_responses_request(std::string_view body, int64_t vocabulary);

}  // namespace rondo
