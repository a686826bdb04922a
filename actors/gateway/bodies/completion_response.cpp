#include "actors/gateway/bodies/completion_response.hpp"

#include "actors/gateway/bodies/event_stream.hpp"

namespace rondo {

namespace {

constexpr const char* object = "text_completion";  // also of a stream's chunks

OrderedJson choice(int index, const std::string& text, OrderedJson logprobs, OrderedJson finish_reason) {
    return {{"text", text},
            {"index", index},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", std::move(finish_reason)}};
}

}  // namespace

std::string completion_response(const AnswerHead& head, std::span<const FinishedAnswer> answers,
                                const TokenBytes& bytes_of) {
    return whole_answer_text(head, object, answers, [&](size_t index, const FinishedAnswer& answer) {
        return json_text(choice(static_cast<int>(index), answer.delta.text,
                                CompletionLogprobs().next(answer.delta, bytes_of),
                                finish_reason_json(answer.end.outcome)));
    });
}

std::string completion_delta_event(const AnswerHead& head, int index, const TurnDelta& delta,
                                   CompletionLogprobs& logprobs, const TokenBytes& bytes_of) {
    if (delta.text.empty() && delta.logprobs.empty()) return {};
    return stream_event(
        json_text(chunk_json(head, object, choice(index, delta.text, logprobs.next(delta, bytes_of), nullptr))));
}

std::string completion_finish_event(const AnswerHead& head, int index, const TurnEnd& end) {
    OrderedJson chunk = chunk_json(head, object, choice(index, "", nullptr, finish_reason_json(end.outcome)));
    chunk["timings"] = timings_json(end.timings);
    chunk["attention"] = attention_json(end.attention);
    return stream_event(json_text(chunk));
}

std::string completion_usage_event(const AnswerHead& head, const TurnUsage& usage) {
    return usage_event(head, object, usage);
}

}  // namespace rondo
