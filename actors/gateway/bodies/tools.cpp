#include "actors/gateway/bodies/tools.hpp"

#include <utility>

#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

constexpr const char* list_field = "tools";
constexpr const char* choice_field = "tool_choice";

void read_name(BodyFields& function, std::string& into) {
    function.text("name", limits::name_bytes_max, into);
    if (into.empty()) function.missing("name", "a function's name");
}

void read_named_choice(BodyFields& choice, bool is_flat, ToolChoice& into) {
    std::string type;
    choice.text("type", limits::name_bytes_max, type);
    if (type != "function") return choice.wrong("type", type.empty() ? "missing" : "not supported", "function");
    into.kind = ToolChoice::Kind::required;
    if (is_flat) {
        read_name(choice, into.name);
    } else if (const Json* function = choice.find("function"); function == nullptr) {
        choice.missing("function", "{\"name\": …}");
    } else if (auto named = choice.within("function", *function, "{\"name\": …}")) {
        read_name(*named, into.name);
        named->refuse_others();
    }
    choice.refuse_others();
}

void read_choice(BodyFields& fields, bool is_flat, ToolChoice& into) {
    constexpr std::string_view right = "none, auto, required or {\"type\": \"function\", …}";
    const Json* choice = fields.find(choice_field);
    if (choice == nullptr || *choice == "auto") return;
    if (*choice == "none" || *choice == "required") {
        into.kind = *choice == "none" ? ToolChoice::Kind::none : ToolChoice::Kind::required;
    } else if (choice->is_object()) {
        if (auto named = fields.within(choice_field, *choice, right)) read_named_choice(*named, is_flat, into);
    } else {
        fields.wrong(choice_field, choice->is_string() ? "unknown" : "of another type", right);
    }
}

}  // namespace

void read_tool_choice(BodyFields& fields, bool is_flat, ToolFields& into) {
    fields.flag("parallel_tool_calls", into.choice.several);
    read_choice(fields, is_flat, into.choice);
    if (into.choice.kind == ToolChoice::Kind::required && into.list.empty())
        fields.wrong(choice_field, "there without tools", "left out");
}

void read_tool_fields(BodyFields& fields, std::string_view body, ToolFields& into) {
    const Json* list = fields.array(list_field, limits::tools_max);
    // A prompt depends on the order of members, which the tree of the body does not keep.
    if (!fields.has_problem() && list != nullptr && !list->empty())
        into.list = nlohmann::ordered_json::parse(body).at(list_field).dump();
    read_tool_choice(fields, false, into);
}

ApiResult<std::shared_ptr<const ToolUse>> fit_tools(const ToolFields& fields, const ChatTemplate* chat_template,
                                                    const CallStyle* style, std::shared_ptr<const AnswerFormat> text) {
    std::shared_ptr<const ToolUse> none;
    if (fields.list.empty()) return none;
    ToolChoice choice = fields.choice;
    choice.text = std::move(text);
    const bool is_told = chat_template != nullptr && chat_template->names("tools");
    const bool changes_nothing = choice.kind == ToolChoice::Kind::none && !is_told;
    auto made = changes_nothing ? ToolUse::make(fields.list, choice, nullptr, list_field)
                                : ToolUse::make_for(chat_template, style, fields.list, choice, list_field);
    if (made) return changes_nothing ? none : *std::move(made);
    const bool is_unsupported = made.error().code == ErrorCode::unsupported;
    return bad_field(list_field, is_unsupported ? "unsupported_value" : "invalid_value", made.error().message);
}

}  // namespace rondo
