#include "actors/gateway/bodies/template_fields.hpp"

#include <algorithm>
#include <array>

#include "actors/gateway/bodies/chat_messages.hpp"
#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/text/template_variables.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

constexpr const char* thinking = "enable_thinking";  // Qwen3's word, and that of most after it
constexpr const char* effort = "reasoning_effort";   // gpt-oss's
constexpr const char* variables_field = "chat_template_kwargs";

std::string variable(const std::string& name) {
    const std::string quoted = in_quotes(std::string(variables_field) + "." + name);
    return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

void read_effort(BodyFields& fields, const char* name, TemplateFields& into) {
    constexpr std::array<std::string_view, 6> efforts{"none", "minimal", "low", "medium", "high", "xhigh"};
    fields.text(name, limits::name_bytes_max, into.reasoning_effort);
    if (!into.reasoning_effort.empty() && std::ranges::find(efforts, into.reasoning_effort) == efforts.end())
        fields.wrong(name, "unknown", "none, minimal, low, medium, high or xhigh");
}

void read_template_fields(BodyFields& fields, TemplateFields& into) {
    read_effort(fields, effort, into);
    const Json* variables = fields.find(variables_field);
    if (variables == nullptr || !fields.within(variables_field, *variables, "an object")) return;
    for (const auto& [name, value] : variables->items()) {
        if (!is_reserved_variable(name)) continue;
        return fields.wrong(variable(name), "set by the server alone", "left out");
    }
    // Names are known to be fine here, so what is wrong is its size.
    if (!check_template_variables(variables->dump())) {
        return fields.wrong(variables_field, "too large",
                            "an object of up to " + std::to_string(limits::template_variables_bytes_max) + " bytes, " +
                                std::to_string(limits::template_variables_max) + " values and " +
                                std::to_string(limits::template_variables_depth_max) + " levels");
    }
    into.variables = *variables;
}

ApiResult<std::string> fit_to_template(const TemplateFields& fields, std::span<const ChatMessage> messages,
                                       const ChatTemplate* chat_template) {
    if (chat_template == nullptr) return std::string();
    const auto calling = std::ranges::find_if(messages, has_tool_calls);
    if (calling != messages.end() && !chat_template->names("tool_calls")) {
        const std::string param =
            item_name("messages", static_cast<size_t>(calling - messages.begin())) + ".tool_calls";
        return bad_field(param, "unsupported_value",
                         param + " is nothing that this model's chat template can say; it must be left out");
    }
    Json variables = fields.variables;
    for (const auto& [name, value] : variables.items()) {
        if (chat_template->names(name) || value.is_null() || value == false) continue;
        return bad_field(variable(name), "unsupported_value",
                         variable(name) + " is not read by this model's chat template; it must be left out");
    }
    if (!fields.reasoning_effort.empty()) {
        const bool thinks = fields.reasoning_effort != "none";
        const bool reads_effort = chat_template->names(effort), reads_thinking = chat_template->names(thinking);
        // A model that is told nothing of it does what these two ask for.
        const bool changes_nothing = !thinks || fields.reasoning_effort == "medium";
        if (!reads_effort && !reads_thinking && !changes_nothing) {
            return bad_field(effort, "unsupported_value",
                             std::string(effort) + " is not read by this model's chat template; it must be left out");
        }
        if (reads_effort && !variables.contains(effort)) variables[effort] = fields.reasoning_effort;
        if (reads_thinking && !variables.contains(thinking)) variables[thinking] = thinks;
    }
    return variables.empty() ? std::string() : variables.dump();
}

}  // namespace rondo
