#include "model/text/template_variables.hpp"

#include <algorithm>
#include <array>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/strict_json.hpp"
#include "model/text/jinja/builtins.hpp"

namespace rondo {

bool is_reserved_variable(std::string_view name) {
    // What Hugging Face's apply_chat_template takes as arguments of its own, and what Jinja itself says.
    constexpr std::array<std::string_view, 15> taken{"messages",
                                                     "tools",
                                                     "documents",
                                                     "add_generation_prompt",
                                                     "continue_final_message",
                                                     "chat_template",
                                                     "tokenize",
                                                     "loop",
                                                     "self",
                                                     "caller",
                                                     "varargs",
                                                     "kwargs",
                                                     "true",
                                                     "false",
                                                     "none"};
    if (std::ranges::find(taken, name) != taken.end() || jinja::find_function(name) != nullptr) return true;
    return name.ends_with("_token") || name.ends_with("_tokens");
}

Status check_template_variables(std::string_view json) {
    constexpr JsonBounds bounds{.bytes_max = limits::template_variables_bytes_max,
                                .depth_max = limits::template_variables_depth_max,
                                .values_max = limits::template_variables_max};
    if (json.empty()) return {};
    RONDO_ASSIGN(const nlohmann::json variables, parse_json_object(json, "the template's variables", bounds));
    for (const auto& [name, value] : variables.items()) {
        if (!is_reserved_variable(name)) continue;
        return make_error(ErrorCode::invalid_argument, "the template's variables have " + in_quotes(name) +
                                                           ", which only the server sets; the name must be another");
    }
    return {};
}

}  // namespace rondo
