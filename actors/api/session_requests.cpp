#include "actors/api/session_requests.hpp"

#include <algorithm>

#include "actors/api/body_fields.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

std::string_view or_no_fields(std::string_view body) {
    return body.empty() ? "{}" : body;
}

}  // namespace

ApiResult<SessionCreateRequest> parse_session_create(std::string_view body) {
    return read_body<SessionCreateRequest>(or_no_fields(body), [](BodyFields& fields, SessionCreateRequest& request) {
        fields.conversation_id("id", request.id);
        fields.text("system", limits::prompt_bytes_max, request.system);
    });
}

ApiResult<SessionRewindRequest> parse_session_rewind(std::string_view body) {
    return read_body<SessionRewindRequest>(body, [](BodyFields& fields, SessionRewindRequest& request) {
        if (fields.find("round") == nullptr) fields.missing("round", "the number of a round");
        fields.whole("round", 0, limits::rounds_max, request.round);
    });
}

ApiResult<SessionForkRequest> parse_session_fork(std::string_view body) {
    return read_body<SessionForkRequest>(or_no_fields(body), [](BodyFields& fields, SessionForkRequest& request) {
        fields.conversation_id("id", request.id);
    });
}

ApiResult<SessionDropRequest> parse_session_drop(std::string_view body) {
    return read_body<SessionDropRequest>(body, [](BodyFields& fields, SessionDropRequest& request) {
        fields.wholes("rounds", 0, limits::rounds_max, request.rounds);
        if (request.rounds.empty()) fields.missing("rounds", "a list of numbers of rounds");
        std::ranges::sort(request.rounds);
        if (std::ranges::adjacent_find(request.rounds) != request.rounds.end()) {
            fields.wrong("rounds", "a list that names a round twice", "each once");
        }
    });
}

}  // namespace rondo
