#include "actors/gateway/bodies/conversation_id.hpp"
#include "actors/gateway/bodies/listings.hpp"
#include "actors/gateway/bodies/page_query.hpp"
#include "actors/gateway/bodies/session_requests.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/gateway/list_desk.hpp"
#include "actors/gateway/path_rest.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

std::string said_by(const char* role, const std::vector<ChatMessage>& messages) {
    std::string said;
    for (const ChatMessage& message : messages)
        if (message.role == role) said += (said.empty() ? "" : "\n") + message.content;
    return said;
}

SessionInfo told(const ConversationInfo& info) {
    SessionInfo out{info.id, info.title, said_by("system", info.preamble), info.tokens, {}};
    for (const Round& round : info.rounds) {
        out.rounds.push_back({static_cast<int>(out.rounds.size()), round.tokens, said_by("user", round.asked),
                              round.answer, round.figures});
    }
    return out;
}

/// Asks the router and answers with what comes; the server's thread goes on meanwhile. What is spawned takes an
/// argument, because CAF 0.17 goes through a null pointer for a function without one.
template <class Answer, class... Request>
void ask_router(Engine& engine, const std::shared_ptr<Exchange>& exchange,
                std::function<std::string(const Answer&)> body, Request... request) {
    const auto ask = [=](caf::event_based_actor* self, const front_actor& router) {
        when_answered(
            self->request(router, front_answers_within, request...),
            [=](const Answer& answer) { exchange->send_json(200, body(answer)); },
            [=](const caf::error& error) { exchange->send_error(from_caf(error, "the conversation")); });
    };
    engine.system().spawn(ask, engine.front());
}

std::string one(const ConversationInfoPtr& info) {
    return session_response(told(*info));
}

}  // namespace

void Gateway::sessions(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.path == "/v1/sessions") {
        if (request.method == "GET" || request.method == "HEAD") {
            ApiResult<PageRequest> wanted = parse_page_query(request.query);
            if (!wanted) return exchange->send_error(wanted.error());
            const PageOf page{exchange->tenant, std::move(wanted->after), static_cast<size_t>(wanted->limit)};
            return caf::anon_send(lists_, list_atom::value,
                                  ListJobPtr(std::make_shared<ListJob>(ListJob{exchange, page})));
        }
        if (request.method != "POST") return exchange->send_error(wrong_method("GET, HEAD, POST"));
        const ApiResult<SessionCreateRequest> wanted = parse_session_create(request.body);
        if (!wanted) return exchange->send_error(wanted.error());
        Preamble preamble;
        if (!wanted->system.empty()) preamble.push_back({"system", wanted->system});
        const ConversationName name{exchange->tenant, wanted->id.empty() ? new_id("conv-") : wanted->id};
        return ask_router<ConversationInfoPtr>(engine_, exchange, one, create_atom::value, name, preamble);
    }
    std::string id = request.path.substr(std::string_view("/v1/sessions/").size());
    std::string verb;
    for (const char* known : {"/rewind", "/fork", "/drop", "/warm", "/put_away"}) {
        if (!id.ends_with(known)) continue;
        verb = known + 1;
        id.resize(id.size() - verb.size() - 1);
        break;
    }
    id = decode_rest(id);
    if (!is_conversation_id(id)) return exchange->send_error(unknown_path());
    session(exchange, id, verb);
}

void Gateway::session(const std::shared_ptr<Exchange>& exchange, const std::string& id, const std::string& verb) {
    const HttpRequest& request = exchange->request();
    const ConversationName name{exchange->tenant, id};
    if (verb.empty()) {
        if (request.method == "GET" || request.method == "HEAD")
            return ask_router<ConversationInfoPtr>(engine_, exchange, one, list_atom::value, name);
        if (request.method == "POST") {
            const ApiResult<SessionRenameRequest> wanted = parse_session_rename(request.body);
            if (!wanted) return exchange->send_error(wanted.error());
            return ask_router<ConversationInfoPtr>(engine_, exchange, one, title_atom::value, name, wanted->title);
        }
        if (request.method != "DELETE") return exchange->send_error(wrong_method("GET, HEAD, POST, DELETE"));
        const auto ask = [=](caf::event_based_actor* self, const front_actor& router) {
            when_answered(
                self->request(router, front_answers_within, remove_atom::value, name),
                [=](bool found) {
                    if (found) return exchange->send_json(200, session_deleted_response(id));
                    exchange->send_error(make_error(ErrorCode::not_found, "no conversation of that id"));
                },
                [=](const caf::error& error) { exchange->send_error(from_caf(error, "the conversation")); });
        };
        engine_.system().spawn(ask, engine_.front());
        return;
    }
    if (request.method != "POST") return exchange->send_error(wrong_method("POST"));
    if (verb == "rewind") {
        const ApiResult<SessionRewindRequest> wanted = parse_session_rewind(request.body);
        if (!wanted) return exchange->send_error(wanted.error());
        return ask_router<ConversationInfoPtr>(engine_, exchange, one, rewind_atom::value, name, wanted->round);
    }
    if (verb == "drop") {
        const ApiResult<SessionDropRequest> wanted = parse_session_drop(request.body);
        if (!wanted) return exchange->send_error(wanted.error());
        return ask_router<ConversationInfoPtr>(engine_, exchange, one, drop_atom::value, name,
                                               RoundList(wanted->rounds));
    }
    if (verb == "warm" || verb == "put_away") {
        const ApiResult<SessionNothing> wanted = parse_session_nothing(request.body);
        if (!wanted) return exchange->send_error(wanted.error());
        if (verb == "warm") return warm(exchange, name);
        const std::function<std::string(const int64_t&)> body = [id](const int64_t& tokens) {
            return session_put_away_response(id, tokens);
        };
        return ask_router<int64_t>(engine_, exchange, body, away_atom::value, name);
    }
    const ApiResult<SessionForkRequest> wanted = parse_session_fork(request.body);
    if (!wanted) return exchange->send_error(wanted.error());
    const ConversationName to{exchange->tenant, wanted->id.empty() ? new_id("conv-") : wanted->id};
    ask_router<ConversationInfoPtr>(engine_, exchange, one, fork_atom::value, name, to);
}

/// Whoever does not wait for it any more ends it.
void Gateway::warm(const std::shared_ptr<Exchange>& exchange, const ConversationName& name) {
    Ask ask;
    ask.conversation = name;
    ask.warms = true;
    ask.deadline_seconds = options_.server.deadline_s;
    TurnCallbacks callbacks;
    callbacks.on_end = [exchange, id = name.id](TurnEnd end) {
        if (end.outcome != TurnOutcome::length) return exchange->send_error(end.error);
        exchange->send_json(200, session_warm_response(id, end.usage));
    };
    const Asker asker = engine_.asker();
    const TurnId turn = asker.ask(std::move(ask), std::move(callbacks));
    exchange->on_gone([asker, turn] { asker.cancel(turn); });
}

}  // namespace rondo
