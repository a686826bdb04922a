#include "actors/engine_inside.hpp"
#include "actors/gateway/answer_exchange.hpp"
#include "actors/gateway/bodies/responses_request.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/random_id.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

ApiError unknown_response() {
    ApiError error = api_error(make_error(ErrorCode::not_found, "no response of that id is kept"));
    error.code = "previous_response_not_found";
    error.param = "previous_response_id";
    return error;
}

ApiError unfinished_response() {
    return bad_field("previous_response_id", "invalid_value",
                     "previous_response_id is a response that is still being made; it must be one that has ended");
}

/// What is wrong with it, by the names that this API has for the same.
ApiError in_words_of_responses(ApiError error) {
    const auto replace = [&error](std::string_view what, std::string_view by) {
        const size_t at = error.message.find(what);
        if (at != std::string::npos) error.message.replace(at, what.size(), by);
    };
    if (error.param == "tools") replace(".function", "");
    if (error.param.starts_with("messages[")) {
        replace(error.param, "input's function_call");
        error.param = "input";
    }
    return error;
}

}  // namespace

/// A response that is stored is a conversation of its own, called by the response's id. It begins as the one before it,
/// so any response may be gone on with, by several at once.
void Gateway::responses(const std::shared_ptr<Exchange>& exchange) {
    ApiResult<ResponsesRequest> request =
        parse_responses_request(exchange->take_body(), inside(engine_).model().spec.vocabulary);
    if (!request) return exchange->send_error(request.error());
    ApiResult<Ask> ask = make_chat_ask(exchange->tenant, *request);
    if (!ask) return exchange->send_error(in_words_of_responses(ask.error()));
    AnswerHead head = answer_head("resp_", *request);
    head.id = random_id("resp_");  // a conversation of an earlier start may be kept by another
    const ConversationName previous{exchange->tenant, request->previous}, own{exchange->tenant, head.id};
    const bool is_stored = request->is_stored, goes_on = !previous.id.empty();
    if (is_stored || goes_on) ask->conversation = own;
    ask->goes_on = ask->goes_on || goes_on;
    OrderedJson told_back = std::move(request->told_back);
    auto answer = std::make_shared<AnswerExchange>(engine_, exchange, AnswerExchange::Api::responses, std::move(head),
                                                   std::move(*request), std::move(*ask));
    answer->repeat(std::move(told_back));
    if (!goes_on) return answer->start();
    answer->on_over([front = engine_.front(), own, is_stored](bool whole) {
        if (!whole || !is_stored) caf::anon_send(front, remove_atom::value, own);
    });
    const auto failed = [exchange](const caf::error& why) {
        const Error error = from_caf(why, "the response before");
        if (error.code == ErrorCode::not_found) return exchange->send_error(unknown_response());
        exchange->send_error(error);
    };
    const auto fork = [=](caf::event_based_actor* self, const front_actor& router) {
        when_answered(
            self->request(router, front_answers_within, list_atom::value, previous),
            [=](const ConversationInfoPtr& info) {
                if (info->is_answering) return exchange->send_error(unfinished_response());
                when_answered(
                    self->request(router, front_answers_within, fork_atom::value, previous, own),
                    [=](const ConversationInfoPtr&) { answer->start(); }, failed);
            },
            failed);
    };
    engine_.system().spawn(fork, engine_.front());
}

void Gateway::response(const std::shared_ptr<Exchange>& exchange, const std::string& id) {
    const ConversationName name{exchange->tenant, id};
    const auto remove = [=](caf::event_based_actor* self, const front_actor& router) {
        when_answered(
            self->request(router, front_answers_within, remove_atom::value, name),
            [=](bool found) {
                if (found) return exchange->send_json(200, response_deleted_body(name.id));
                exchange->send_error(make_error(ErrorCode::not_found, "no response of that id is kept"));
            },
            [=](const caf::error& error) { exchange->send_error(from_caf(error, "the response")); });
    };
    engine_.system().spawn(remove, engine_.front());
}

}  // namespace rondo
