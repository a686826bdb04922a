#include "actors/api/completion_request.hpp"

#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

void read_text_prompt(BodyFields& fields, const Json& text, CompletionRequest& into) {
    if (text.get_ref<const std::string&>().empty()) return fields.wrong("prompt", "empty", "at least one byte");
    into.prompt = text.get<std::string>();
}

void read_prompt(BodyFields& fields, int64_t vocabulary, CompletionRequest& into) {
    constexpr std::string_view right = "a string or a list of token ids";
    const Json* prompt = fields.find("prompt");
    if (prompt == nullptr) return fields.missing("prompt", right);
    if (prompt->is_string()) return read_text_prompt(fields, *prompt, into);
    if (!prompt->is_array()) return fields.wrong("prompt", "of another type", right, "invalid_type");
    if (prompt->empty()) return fields.wrong("prompt", "an empty list", "at least one token id");
    const Json& first = prompt->front();
    if (first.is_string() || first.is_array()) {
        if (prompt->size() > 1) {
            return fields.wrong("prompt", "a list of " + std::to_string(prompt->size()) + " prompts",
                                "one prompt a request", "unsupported_value");
        }
        if (first.is_string()) return read_text_prompt(fields, first, into);
        return fields.wrong("prompt", "a list of lists", right, "unsupported_value");
    }
    std::vector<int32_t> ids;
    fields.token_ids("prompt", vocabulary, ids);
    into.prompt = std::move(ids);
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, int64_t vocabulary) {
    constexpr int64_t tokens_max_default = 16;  // OpenAI's
    return read_body<CompletionRequest>(body, [vocabulary](BodyFields& fields, CompletionRequest& request) {
        request.options.tokens_max = tokens_max_default;
        read_prompt(fields, vocabulary, request);
        read_answer_fields(fields, vocabulary, request);
        fields.whole("logprobs", 0, limits::logprobs_max, request.options.sampling.logprobs);
        fields.refuse_unless("echo", false);
        fields.refuse_unless("suffix", "");
        fields.refuse_unless("best_of", 1);
    });
}

}  // namespace rondo
