#include "actors/gateway/bodies/chat_response.hpp"

#include "actors/gateway/bodies/event_stream.hpp"
#include "actors/gateway/bodies/token_logprobs.hpp"

namespace rondo {

namespace {

constexpr const char* chunk_object = "chat.completion.chunk";

/// A call, or what is new of it: its index is told in a stream, its id and name once.
OrderedJson call_json(const ToolCallPiece& piece, bool is_message) {
    OrderedJson json = OrderedJson::object();
    if (!is_message) json["index"] = piece.index;
    if (!piece.id.empty()) {
        json["id"] = piece.id;
        json["type"] = "function";
        json["function"]["name"] = piece.name;
    }
    json["function"]["arguments"] = piece.arguments;
    return json;
}

/// A message, or what is new of it. Thoughts come under the name that vLLM gave them, and only where there are some; a
/// message of calls alone has no content.
OrderedJson said(const TurnDelta& delta, bool is_message) {
    OrderedJson json = OrderedJson::object();
    if (is_message) json["role"] = "assistant";
    if (!delta.thought.empty()) json["reasoning_content"] = delta.thought;
    if (!delta.text.empty() || (delta.calls.empty() && (is_message || delta.thought.empty())))
        json["content"] = delta.text;
    else if (is_message)
        json["content"] = nullptr;
    for (const ToolCallPiece& piece : delta.calls) json["tool_calls"].push_back(call_json(piece, is_message));
    return json;
}

std::string event(const AnswerHead& head, OrderedJson choice) {
    return stream_event(json_text(chunk_json(head, chunk_object, std::move(choice))));
}

}  // namespace

std::string chat_response(const AnswerHead& head, std::span<const FinishedAnswer> answers, const TokenBytes& bytes_of) {
    return whole_answer_text(head, "chat.completion", answers, [&](size_t index, const FinishedAnswer& answer) {
        JsonObjectText choice;
        choice.add("index", index);
        choice.add("message", said(answer.delta, true));
        choice.add_text("logprobs", chat_logprobs_text(answer.delta, bytes_of));
        choice.add("finish_reason", finish_reason_json(answer.end.outcome, answer.end.calls));
        return std::move(choice).take();
    });
}

std::string chat_role_event(const AnswerHead& head, int index) {
    return event(head, {{"index", index},
                        {"delta", {{"role", "assistant"}, {"content", ""}}},
                        {"logprobs", nullptr},
                        {"finish_reason", nullptr}});
}

std::string chat_delta_event(const AnswerHead& head, int index, const TurnDelta& delta, const TokenBytes& bytes_of) {
    if (delta.text.empty() && delta.thought.empty() && delta.calls.empty() && delta.logprobs.empty()) return {};
    return event(head, {{"index", index},
                        {"delta", said(delta, false)},
                        {"logprobs", chat_logprobs(delta, bytes_of)},
                        {"finish_reason", nullptr}});
}

std::string chat_finish_event(const AnswerHead& head, int index, const TurnEnd& end) {
    OrderedJson chunk = chunk_json(head, chunk_object,
                                   {{"index", index},
                                    {"delta", OrderedJson::object()},
                                    {"logprobs", nullptr},
                                    {"finish_reason", finish_reason_json(end.outcome, end.calls)}});
    chunk["timings"] = timings_json(end.timings);
    chunk["attention"] = attention_json(end.attention);
    return stream_event(json_text(chunk));
}

std::string chat_usage_event(const AnswerHead& head, const TurnUsage& usage) {
    return usage_event(head, chunk_object, usage);
}

}  // namespace rondo
