#include "actors/gateway/bodies/responses_request.hpp"

#include <utility>

#include "actors/gateway/bodies/response_format.hpp"
#include "actors/gateway/bodies/responses_input.hpp"
#include "config/limits.hpp"
#include "model/format/answer_format.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

/// `ordered`: the body with its members in their order, which a prompt and a schema depend on.
void read_tools(BodyFields& fields, const OrderedJson& ordered, ToolFields& into) {
    const Json* list = fields.array("tools", limits::tools_max);
    OrderedJson tools = OrderedJson::array();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
        auto tool = fields.within(item_name("tools", i), (*list)[i], "an object");
        if (!tool) return;
        std::string type;
        tool->text("type", limits::name_bytes_max, type);
        if (type != "function")
            return tool->wrong("type", type.empty() ? "missing" : "not supported", "function", "unsupported_value");
        OrderedJson function = ordered.at("tools").at(i);
        function.erase("type");
        tools.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    if (!tools.empty()) into.list = tools.dump();
}

void read_text_format(BodyFields& text, const OrderedJson& ordered, AnswerRequest& into) {
    const Json* format = text.find("format");
    if (format == nullptr) return;
    auto within = text.within("format", *format, "{\"type\": …}");
    if (!within) return;
    std::string type;
    within->text("type", limits::name_bytes_max, type);
    if (type == "json_schema") return read_named_schema(*within, ordered.at("text").at("format"), "text.format", into);
    if (type == "json_object") into.options.format = AnswerFormat::json_object();
    if (type != "text" && type != "json_object")
        within->wrong("type", type.empty() ? "missing" : "unknown", "text, json_object or json_schema");
    within->refuse_others();
}

void read_text(BodyFields& fields, const OrderedJson& ordered, AnswerRequest& into) {
    const Json* text = fields.find("text");
    if (text == nullptr) return;
    auto within = fields.within("text", *text, "{\"format\": …}");
    if (!within) return;
    read_text_format(*within, ordered, into);
    within->refuse_unless("verbosity", "medium");
    within->refuse_others();
}

void read_reasoning(BodyFields& fields, TemplateFields& into) {
    const Json* reasoning = fields.find("reasoning");
    if (reasoning == nullptr) return;
    auto within = fields.within("reasoning", *reasoning, "{\"effort\": …}");
    if (!within) return;
    read_effort(*within, "effort", into);
    for (const char* unused : {"summary", "generate_summary"}) (void)within->find(unused);
    within->refuse_others();
}

/// What can be told beside an answer and is not here; and what OpenAI keeps elsewhere.
void refuse_elsewhere(BodyFields& fields) {
    const Json* include = fields.array("include", limits::tools_max);
    for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
        // What was thought is told as it is, so it need not be encrypted to come back.
        if ((*include)[i] == "reasoning.encrypted_content") continue;
        return fields.wrong(item_name("include", i), "not supported", "left out", "unsupported_value");
    }
    fields.refuse_unless("background", false);
    fields.refuse_unless("truncation", "disabled");
    fields.refuse_unless("top_logprobs", 0);
    for (const char* name : {"max_tool_calls", "prompt", "context_management"}) fields.refuse_unless(name, nullptr);
}

OrderedJson told_back(const OrderedJson& body, const ResponsesRequest& request) {
    OrderedJson told = OrderedJson::object();
    const auto tell = [&](const char* name, OrderedJson absent) {
        told[name] = body.contains(name) && !body.at(name).is_null() ? body.at(name) : std::move(absent);
    };
    tell("instructions", nullptr);
    tell("max_output_tokens", nullptr);
    tell("metadata", OrderedJson::object());
    told["parallel_tool_calls"] = request.tools.choice.several;
    tell("previous_response_id", nullptr);
    tell("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
    told["store"] = request.is_stored;
    told["temperature"] = request.options.sampling.temperature;
    tell("text", {{"format", {{"type", "text"}}}});
    tell("tool_choice", "auto");
    tell("tools", OrderedJson::array());
    told["top_p"] = request.options.sampling.top_p;
    told["truncation"] = "disabled";
    return told;
}

}  // namespace

ApiResult<ResponsesRequest> parse_responses_request(std::string_view body, int64_t vocabulary) {
    return read_body<ResponsesRequest>(body, [body, vocabulary](BodyFields& fields, ResponsesRequest& request) {
        // What is told back, and what a prompt and a schema depend on the order of; the input may be long, and is not.
        const auto ordered =
            OrderedJson::parse(body, [](int depth, OrderedJson::parse_event_t event, OrderedJson& value) {
                return depth != 1 || event != OrderedJson::parse_event_t::key || value != "input";
            });
        std::string instructions;
        fields.text("instructions", limits::prompt_bytes_max, instructions);
        if (!instructions.empty()) request.messages.push_back({"system", std::move(instructions)});
        read_responses_input(fields, request.messages);
        read_answer_fields(fields, vocabulary, request);
        if (request.tokens_max_given) fields.wrong("max_tokens", "no field of a response", "max_output_tokens");
        if (request.n > 1) fields.wrong("n", std::to_string(request.n), "1");
        request.options.tokens_max = limits::context_tokens_max;
        request.tokens_max_given = fields.find("max_output_tokens") != nullptr;
        fields.whole("max_output_tokens", 1, limits::context_tokens_max, request.options.tokens_max);
        fields.flag("store", request.is_stored);
        fields.conversation_id("previous_response_id", request.previous);
        if (!request.conversation.empty()) {
            request.is_stored = false;
            if (!request.previous.empty())
                fields.wrong("previous_response_id", "there beside a conversation", "one of the two");
        }
        read_template_fields(fields, request.for_template);
        read_reasoning(fields, request.for_template);
        read_text(fields, ordered, request);
        read_tools(fields, ordered, request.tools);
        read_tool_choice(fields, true, request.tools);
        refuse_elsewhere(fields);
        read_labels(fields);
        request.told_back = told_back(ordered, request);
    });
}

}  // namespace rondo
