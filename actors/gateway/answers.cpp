#include <algorithm>

#include "actors/engine_inside.hpp"
#include "actors/gateway/answer_exchange.hpp"
#include "actors/gateway/bodies/chat_request.hpp"
#include "actors/gateway/bodies/completion_request.hpp"
#include "actors/gateway/bodies/json_text.hpp"
#include "actors/gateway/bodies/listings.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/timespan.hpp"

namespace rondo {

std::vector<std::string> Gateway::model_names() const {
    const std::vector<std::string>& names = options_.server.served_model_names;
    return names.empty() ? std::vector{inside(engine_).model().name} : names;
}

std::vector<ServedModel> Gateway::served_models() const {
    std::vector<ServedModel> served;
    for (std::string& name : model_names()) {
        ServedModel& model = served.emplace_back();
        model.id = std::move(name);
        model.created_s = started_s_;
        model.context_tokens_max = engine_.context_tokens();
        for (const AttentionMethod& method : engine_.methods()) model.methods.push_back(method.name);
        model.budget_tokens_max = inside(engine_).runtime()->budget_tokens_max;
    }
    return served;
}

void Gateway::model(Exchange& exchange, const std::string& id) const {
    const std::vector<ServedModel> served = served_models();
    const auto found = std::ranges::find(served, id, &ServedModel::id);
    if (found == served.end()) return exchange.send_error(unknown_model(id, model_names()));
    exchange.send_json(200, model_response(*found));
}

/// What a request says of its turn, or what is wrong with that here.
ApiResult<Ask> Gateway::make_ask(const std::string& tenant, const AnswerRequest& request) const {
    const std::vector<std::string> names = model_names();
    if (!request.model.empty() && std::ranges::find(names, request.model) == names.end())
        return unknown_model(request.model, names);
    const Result<size_t> method = inside(engine_).runtime()->method(request.method);
    if (!method) return bad_field("method", "unsupported_value", method.error().message);
    if (const Status budget = inside(engine_).runtime()->check_budget(*method, request.budget_tokens); !budget)
        return bad_field("method.budget_tokens", "unsupported_value", budget.error().message);
    Ask ask;
    ask.conversation = {tenant, request.conversation};
    ask.goes_on = request.goes_on;
    ask.told_at_end = !request.stream;
    ask.options = request.options;
    ask.priority = request.priority;
    ask.method = request.method;
    ask.budget_tokens = request.budget_tokens;
    ask.thoughts_apart = options_.server.reasoning == ServerSettings::Reasoning::automatic;
    ask.deadline_seconds = options_.server.deadline_s;
    if (request.deadline_s > 0.0) ask.deadline_seconds = std::min(ask.deadline_seconds, request.deadline_s);
    return ask;
}

ApiResult<std::string> Gateway::template_variables(const TemplateFields& fields,
                                                   const std::vector<ChatMessage>& messages) const {
    const auto& chat_template = inside(engine_).model().chat_template;
    return fit_to_template(fields, messages, chat_template ? &*chat_template : nullptr);
}

ApiResult<std::shared_ptr<const ToolUse>> Gateway::fit_tools(const ToolFields& fields,
                                                             std::shared_ptr<const AnswerFormat> text) const {
    const Model& model = inside(engine_).model();
    return rondo::fit_tools(fields, model.chat_template ? &*model.chat_template : nullptr, model.style_of_calls(),
                            std::move(text));
}

AnswerHead Gateway::answer_head(const char* prefix, const AnswerRequest& request) {
    return {new_id(prefix), whole_seconds_since_1970(), model_names().front(), request.stream && request.include_usage};
}

/// The same of a chat, whose messages and tools it takes.
ApiResult<Ask> Gateway::make_chat_ask(const std::string& tenant, ChatRequest& request) const {
    ApiResult<Ask> ask = make_ask(tenant, request);
    if (!ask) return ask;
    ApiResult<std::string> variables = template_variables(request.for_template, request.messages);
    if (!variables) return variables.error();
    ask->template_variables = std::move(*variables);
    ApiResult<std::shared_ptr<const ToolUse>> tools = fit_tools(request.tools, ask->options.format);
    if (!tools) return tools.error();
    ask->tools = *std::move(tools);
    if (ask->tools) ask->options.format = nullptr;  // it is the text's among the tools
    ask->messages = std::move(request.messages);
    if (!request.tokens_max_given) ask->options.tokens_max = engine_.context_tokens();
    return ask;
}

void Gateway::chat(const std::shared_ptr<Exchange>& exchange) {
    ApiResult<ChatRequest> request = parse_chat_request(exchange->take_body(), inside(engine_).model().spec.vocabulary);
    if (!request) return exchange->send_error(request.error());
    ApiResult<Ask> ask = make_chat_ask(exchange->tenant, *request);
    if (!ask) return exchange->send_error(ask.error());
    AnswerHead head = answer_head("chatcmpl-", *request);
    std::make_shared<AnswerExchange>(engine_, exchange, AnswerExchange::Api::chat, std::move(head), std::move(*request),
                                     std::move(*ask))
        ->start();
}

void Gateway::completion(const std::shared_ptr<Exchange>& exchange) {
    ApiResult<CompletionRequest> request =
        parse_completion_request(exchange->take_body(), inside(engine_).model().spec.vocabulary);
    if (!request) return exchange->send_error(request.error());
    if (!request->conversation.empty()) {
        return exchange->send_error(bad_field("conversation", "unsupported_value",
                                              "a plain prompt belongs to no conversation; "
                                              "the path must be /v1/chat/completions"));
    }
    ApiResult<Ask> ask = make_ask(exchange->tenant, *request);
    if (!ask) return exchange->send_error(ask.error());
    bool has_text = false;
    for (const CompletionRequest::Prompt& prompt : request->prompts) {
        const auto* const text = std::get_if<std::string>(&prompt);
        has_text = has_text || text != nullptr;
        if (text == nullptr) continue;
        if (const auto error = too_long("prompt", text->size())) return exchange->send_error(*error);
    }
    AnswerHead head = answer_head("cmpl-", *request);
    auto prompts = std::move(request->prompts);
    // A stream begins with all echoes at once.
    const size_t echoes_max = request->stream ? options_.limits.write_bytes_max / 2 : SIZE_MAX;
    auto start = [runtime = inside(engine_).runtime(), exchange, echo = request->echo, echoes_max, n = request->n,
                  special = request->options.special_text, prompts = std::move(prompts),
                  answer = std::make_shared<AnswerExchange>(engine_, exchange, AnswerExchange::Api::completion,
                                                            std::move(head), std::move(*request), std::move(*ask))] {
        const Model& model = runtime->model;
        size_t echoes = 0;
        for (const CompletionRequest::Prompt& prompt : prompts) {
            const auto* const text = std::get_if<std::string>(&prompt);
            Result<std::vector<int32_t>> ids = text == nullptr ? std::get<std::vector<int32_t>>(prompt)
                                                               : model.encode_text(*text, exchange->stop_token());
            if (!ids) return exchange->send_error(ids.error());
            std::string said;
            if (echo) said = text != nullptr ? *text : model.tokenizer ? model.tokenizer->decode(*ids, special) : "";
            echoes += json_text(said).size() * static_cast<size_t>(n);
            if (echoes > echoes_max) {
                return exchange->send_error(bad_field("echo", "unsupported_value",
                                                      "a stream cannot begin with more than " +
                                                          std::to_string(echoes_max) +
                                                          " bytes of prompts; stream must be false"));
            }
            answer->add_prompt(std::move(*ids), std::move(said));
        }
        answer->start();
    };
    if (!has_text) return start();
    apart(exchange, std::move(start));
}

}  // namespace rondo
