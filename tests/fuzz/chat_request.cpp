#include "actors/gateway/bodies/chat_request.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "actors/gateway/bodies/chat_response.hpp"
#include "actors/gateway/bodies/completion_request.hpp"
#include "actors/gateway/bodies/completion_response.hpp"
#include "actors/gateway/bodies/conversation_id.hpp"
#include "actors/gateway/bodies/session_requests.hpp"
#include "actors/gateway/bodies/tokenize_requests.hpp"
#include "config/limits.hpp"
#include "model/text/template_variables.hpp"
#include "model/text/unicode.hpp"

namespace {

constexpr int64_t vocabulary = 1000;

void require(bool holds) {
    if (!holds) std::abort();
}

void check_json(const std::string& text) {
    require(rondo::unicode::is_valid(text));
    require(nlohmann::json::accept(text));
}

/// A refusal is one line of JSON that the server can send.
template <class T>
bool accepted(const rondo::ApiResult<T>& request) {
    if (request.is_ok()) return true;
    require(request.error().status == 400);
    require(request.error().message.find_first_of("\r\n") == std::string::npos);
    require(request.error().param.size() < 2048);
    check_json(request.error().body());
    return false;
}

void check_answer_fields(const rondo::AnswerRequest& request) {
    const rondo::SamplingParams& sampling = request.options.sampling;
    require(request.n >= 1 && request.n <= rondo::limits::answers_max);
    require(request.options.tokens_max >= 1 && request.options.tokens_max <= rondo::limits::context_tokens_max);
    require(sampling.temperature >= 0 && sampling.temperature <= 2 && sampling.top_p > 0 && sampling.top_p <= 1);
    require(sampling.top_k >= 0 && sampling.top_k <= vocabulary);
    require(sampling.logprobs >= -1 && sampling.logprobs <= rondo::limits::logprobs_max);
    for (const auto& [id, bias] : sampling.logit_bias) {
        require(id >= 0 && id < vocabulary && bias >= -100 && bias <= 100);
    }
    require(rondo::StopStrings::check(request.options.stops).is_ok());
    require(request.conversation.empty() || rondo::is_conversation_id(request.conversation));
    require(request.options.tokens_min >= 0 && request.options.tokens_min <= request.options.tokens_max);
    require(request.budget_tokens >= 0 && request.budget_tokens <= rondo::limits::context_tokens_max);
    require(request.deadline_s >= 0 && request.deadline_s <= rondo::limits::deadline_s_max);
}

/// Whatever bytes a model answers, what is sent is valid.
void check_events(const std::string& bytes) {
    const rondo::AnswerHead head{"id", 0, "model", true};
    const auto bytes_of = [&](int32_t id) { return bytes.substr(0, static_cast<size_t>(id)); };
    const rondo::TurnDelta delta{bytes, {1, 2}, {{{1, -1.0F}, {2, -2.0F}}, {{2, -2.0F}}}};
    rondo::CompletionLogprobs logprobs;
    for (const std::string& event : {rondo::chat_delta_event(head, 0, delta, bytes_of),
                                     rondo::completion_delta_event(head, 0, delta, logprobs, bytes_of)}) {
        constexpr size_t prefix = 6, suffix = 2;
        require(event.starts_with("data: ") && event.ends_with("\n\n"));
        const std::string json = event.substr(prefix, event.size() - prefix - suffix);
        require(json.find_first_of("\r\n") == std::string::npos);
        check_json(json);
    }
}

}  // namespace

/// Any bytes as the body of every request that has one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    const auto chat = rondo::parse_chat_request(body, vocabulary);
    if (accepted(chat)) {
        check_answer_fields(*chat);
        require(!chat->messages.empty());
        for (const rondo::ChatMessage& message : chat->messages) {
            require(!message.role.empty() && message.role != "developer");
            require(rondo::unicode::is_valid(message.content));
            if (!message.more_json.empty()) check_json(message.more_json);
        }
        require(rondo::check_template_variables(chat->for_template.variables.dump()).is_ok());
    }
    const auto completion = rondo::parse_completion_request(body, vocabulary);
    if (accepted(completion)) {
        check_answer_fields(*completion);
        require(!completion->prompts.empty() && completion->prompts.size() <= rondo::limits::prompts_max);
    }
    (void)accepted(rondo::parse_session_create(body));
    (void)accepted(rondo::parse_session_rename(body));
    (void)accepted(rondo::parse_session_rewind(body));
    (void)accepted(rondo::parse_session_fork(body));
    (void)accepted(rondo::parse_session_drop(body));
    (void)accepted(rondo::parse_tokenize(body));
    const auto ids = rondo::parse_detokenize(body, vocabulary);
    if (accepted(ids)) {
        for (const int32_t id : ids->ids) require(id >= 0 && id < vocabulary);
    }
    check_events(std::string(body));
    return 0;
}
