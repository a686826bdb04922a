#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/gateway/bodies/api_error.hpp"

namespace rondo {

/// POST /v1/sessions
struct SessionCreateRequest {
    std::string id;      ///< "": the server makes one
    std::string system;  ///< "": no system prompt
};

/// POST /v1/sessions/ID
struct SessionRenameRequest {
    std::string title;  ///< as is_title allows it
};

/// POST /v1/sessions/ID/rewind: forgets this round and all after it.
struct SessionRewindRequest {
    int64_t round = 0;
};

/// POST /v1/sessions/ID/fork
struct SessionForkRequest {
    std::string id;  ///< of the copy; "": the server makes one
};

/// POST /v1/sessions/ID/drop
struct SessionDropRequest {
    std::vector<int64_t> rounds;  ///< at least one, each once, ascending
};

struct SessionNothing {};

/// An empty body is one without fields, where no field is required.
ApiResult<SessionCreateRequest> parse_session_create(std::string_view body);
ApiResult<SessionRenameRequest> parse_session_rename(std::string_view body);
ApiResult<SessionRewindRequest> parse_session_rewind(std::string_view body);
ApiResult<SessionForkRequest> parse_session_fork(std::string_view body);
ApiResult<SessionDropRequest> parse_session_drop(std::string_view body);
/// POST /v1/sessions/ID/warm and …/put_away: they have no fields.
ApiResult<SessionNothing> parse_session_nothing(std::string_view body);

}  // namespace rondo
