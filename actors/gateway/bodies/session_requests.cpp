#include "actors/gateway/bodies/session_requests.hpp"

#include <algorithm>

#include "actors/gateway/bodies/body_fields.hpp"
#include "actors/gateway/bodies/title.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

constexpr size_t title_bytes_max = 4 * limits::title_characters_max;

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

ApiResult<SessionRenameRequest> parse_session_rename(std::string_view body) {
    return read_body<SessionRenameRequest>(body, [](BodyFields& fields, SessionRenameRequest& request) {
        constexpr const char* right = "1 to 200 characters of printable UTF-8, and more than spaces";
        static_assert(limits::title_characters_max == 200);
        if (fields.find("title") == nullptr) return fields.missing("title", right);
        fields.text("title", title_bytes_max, request.title);
        if (!fields.has_problem() && !is_title(request.title)) fields.wrong("title", "not a title", right);
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

ApiResult<SessionNothing> parse_session_nothing(std::string_view body) {
    return read_body<SessionNothing>(or_no_fields(body), [](BodyFields&, SessionNothing&) {});
}

}  // namespace rondo
