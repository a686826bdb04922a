#include "model/tools/written_calls.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "model/tools/called_tools.hpp"

namespace rondo {

namespace {

using Json = nlohmann::ordered_json;

/// The value at the end of a way through members; null where there is none.
Json member_at(const Json& value, std::initializer_list<const char*> way) {
    const Json* at = &value;
    for (const char* name : way) {
        if (!at->is_object() || !at->contains(name)) return {};
        at = &at->at(name);
    }
    return *at;
}

std::string text_at(const Json& value, std::initializer_list<const char*> way) {
    const Json text = member_at(value, way);
    return text.is_string() ? text.get<std::string>() : std::string();
}

}  // namespace

ChatMessage answer_message(std::string answer, const CallStyle* style) {
    ChatMessage message{"assistant", std::move(answer)};
    if (style == nullptr || message.content.find(style->cue()) == std::string::npos) return message;
    int ids = 0;
    CalledTools reader(*style, [&ids] { return "call_" + std::to_string(++ids); });
    CalledTools::Parts parts = reader.push(message.content), rest = reader.finish();
    std::vector<ToolCallPiece> calls;
    add_calls(parts.calls, calls);
    add_calls(rest.calls, calls);
    if (!reader.are_whole()) return message;
    Json list = Json::array();
    for (const ToolCallPiece& call : calls) {
        const Json arguments = Json::parse(call.arguments, nullptr, false);
        if (!arguments.is_object()) return message;
        list.push_back(
            {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", arguments}}}});
    }
    message.content = parts.text + rest.text;
    Json more{{"tool_calls", std::move(list)}};
    if (message.content.empty()) more["content"] = nullptr;
    message.more_json = more.dump(-1, ' ', false, Json::error_handler_t::replace);
    return message;
}

std::string written_calls(const ChatMessage& message, const CallStyle* style) {
    if (style == nullptr || message.more_json.find("\"tool_calls\"") == std::string::npos) return {};
    const Json list = member_at(Json::parse(message.more_json, nullptr, false), {"tool_calls"});
    std::string text;
    for (const Json& call : list) {
        text += text.empty() ? style->begin : style->next;
        text += text_at(call, {"function", "name"}) + style->between;
        text += json_written(member_at(call, {"function", "arguments"}), style->spelling);
        if (!style->before_id.empty()) text += style->before_id + text_at(call, {"id"});
    }
    return text.empty() ? text : text + style->behind;
}

}  // namespace rondo
