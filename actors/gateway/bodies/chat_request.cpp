#include "actors/gateway/bodies/chat_request.hpp"

#include "actors/gateway/bodies/chat_messages.hpp"
#include "actors/gateway/bodies/response_format.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

void read_tokens_max(BodyFields& fields, AnswerRequest& into) {
    int64_t newer = into.options.tokens_max;
    if (fields.find("max_completion_tokens") == nullptr) return;
    fields.whole("max_completion_tokens", 1, limits::context_tokens_max, newer);
    if (into.tokens_max_given && newer != into.options.tokens_max) {
        fields.wrong("max_completion_tokens", std::to_string(newer) + " and max_tokens is not", "one of the two");
    }
    into.options.tokens_max = newer;
    into.tokens_max_given = true;
}

void read_logprobs(BodyFields& fields, SamplingParams& into) {
    bool wanted = false;
    fields.flag("logprobs", wanted);
    if (wanted) into.logprobs = 0;
    if (fields.find("top_logprobs") == nullptr) return;
    int top = 0;
    fields.whole("top_logprobs", 0, limits::logprobs_max, top);
    if (wanted) {
        into.logprobs = top;
    } else if (top > 0) {
        fields.wrong("top_logprobs", "there without logprobs", "\"logprobs\": true");
    }
}

/// What OpenAI had before tools. Functions may be named as long as none is to be called; then they change nothing.
void read_functions(BodyFields& fields) {
    const Json* choice = fields.find("function_call");
    const Json* list = fields.array("functions", limits::tools_max);
    const bool none_called = choice != nullptr && *choice == "none";
    if (!none_called && list != nullptr && !list->empty())
        return fields.wrong("functions", "not supported unless function_call is none", "tools",
                            "unsupported_parameter");
    for (size_t i = 0; list != nullptr && i < list->size(); ++i)
        if (!fields.within(item_name("functions", i), (*list)[i], "an object")) return;
    // Without functions the model may choose as it likes.
    if (choice == nullptr || none_called || *choice == "auto") return;
    fields.wrong("function_call", "not supported but for none", "tool_choice", "unsupported_parameter");
}

/// Fields of OpenAI's that ask for what is not there.
void refuse_unsupported(BodyFields& fields) {
    read_functions(fields);
    fields.refuse_unless("modalities", Json::array({"text"}));
    fields.refuse_unless("verbosity", "medium");
    fields.refuse_unless("echo", false);
    fields.refuse_unless("add_generation_prompt", true);
    fields.refuse_unless("continue_final_message", false);
    for (const char* name : {"audio", "prediction", "web_search_options"}) fields.refuse_unless(name, nullptr);
}

}  // namespace

void read_labels(BodyFields& fields) {
    std::string unused;
    fields.text("safety_identifier", limits::name_bytes_max, unused);
    fields.text("prompt_cache_key", limits::name_bytes_max, unused);
    fields.text("prompt_cache_retention", limits::name_bytes_max, unused);
    std::string tier = "auto";
    fields.text("service_tier", limits::name_bytes_max, tier);
    if (tier != "auto" && tier != "default") fields.wrong("service_tier", "unknown", "auto or default");
    if (const Json* metadata = fields.find("metadata")) (void)fields.within("metadata", *metadata, "an object");
}

ApiResult<ChatRequest> parse_chat_request(std::string_view body, int64_t vocabulary) {
    return read_body<ChatRequest>(body, [body, vocabulary](BodyFields& fields, ChatRequest& request) {
        read_messages(fields, "messages", request.messages);
        if (request.messages.empty()) fields.missing("messages", "a list of messages");
        read_answer_fields(fields, vocabulary, request);
        read_tokens_max(fields, request);
        if (!request.tokens_max_given) request.options.tokens_max = limits::context_tokens_max;
        read_tokens_min(fields, request);
        read_template_fields(fields, request.for_template);
        read_logprobs(fields, request.options.sampling);
        read_response_format(fields, body, request);
        read_tool_fields(fields, body, request.tools);
        refuse_unsupported(fields);
        read_labels(fields);
        bool is_stored = false;  // nothing is, beyond what `conversation` says
        fields.flag("store", is_stored);
    });
}

}  // namespace rondo
