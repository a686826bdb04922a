#include "actors/gateway/bodies/completion_request.hpp"

#include "actors/gateway/bodies/response_format.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

using Prompt = CompletionRequest::Prompt;

constexpr std::string_view right_prompt = "a string, a list of token ids, or a list of those";

void add_text(BodyFields& fields, std::string_view name, const Json& text, CompletionRequest& into) {
    if (text.get_ref<const std::string&>().empty()) return fields.wrong(name, "empty", "at least one byte");
    into.prompts.emplace_back(text.get<std::string>());
}

void add_ids(BodyFields& fields, std::string_view name, const Json& list, int64_t vocabulary, CompletionRequest& into) {
    if (list.empty()) return fields.wrong(name, "an empty list", "at least one token id");
    into.prompts.emplace_back(fields.checked_token_ids(name, list, vocabulary));
}

/// Several prompts are all texts or all lists of ids.
void read_prompts(BodyFields& fields, const Json& list, int64_t vocabulary, CompletionRequest& into) {
    if (list.size() > limits::prompts_max) {
        return fields.wrong("prompt", "a list of " + std::to_string(list.size()) + " prompts",
                            "1 to " + std::to_string(limits::prompts_max));
    }
    for (size_t i = 0; i < list.size() && !fields.has_problem(); ++i) {
        const std::string name = item_name("prompt", i);
        if (list[i].type() != list.front().type())
            return fields.wrong(name, "of another type than the first", right_prompt, "invalid_type");
        list[i].is_string() ? add_text(fields, name, list[i], into) : add_ids(fields, name, list[i], vocabulary, into);
    }
}

void read_prompt(BodyFields& fields, int64_t vocabulary, CompletionRequest& into) {
    const Json* prompt = fields.find("prompt");
    if (prompt == nullptr) return fields.missing("prompt", right_prompt);
    if (prompt->is_string()) return add_text(fields, "prompt", *prompt, into);
    if (!prompt->is_array()) return fields.wrong("prompt", "of another type", right_prompt, "invalid_type");
    if (prompt->empty() || !(prompt->front().is_string() || prompt->front().is_array()))
        return add_ids(fields, "prompt", *prompt, vocabulary, into);
    read_prompts(fields, *prompt, vocabulary, into);
}

void read_echo(BodyFields& fields, CompletionRequest& into) {
    fields.flag("echo", into.echo);
    if (into.echo && into.options.sampling.logprobs >= 0)
        fields.wrong("echo", "true and logprobs are asked for, which there are of answers only", "false");
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, int64_t vocabulary) {
    constexpr int64_t tokens_max_default = 16;  // OpenAI's
    return read_body<CompletionRequest>(body, [body, vocabulary](BodyFields& fields, CompletionRequest& request) {
        request.options.tokens_max = tokens_max_default;
        read_prompt(fields, vocabulary, request);
        read_answer_fields(fields, vocabulary, request);
        read_tokens_min(fields, request);
        read_response_format(fields, body, request);
        fields.whole("logprobs", 0, limits::logprobs_max, request.options.sampling.logprobs);
        read_echo(fields, request);
        if (request.prompts.size() * static_cast<size_t>(request.n) > limits::prompts_max) {
            fields.wrong(
                "n", std::to_string(request.n) + " for each of " + std::to_string(request.prompts.size()) + " prompts",
                "up to " + std::to_string(limits::prompts_max) + " answers in all");
        }
        fields.refuse_unless("suffix", "");
        fields.refuse_unless("best_of", 1);
    });
}

}  // namespace rondo
