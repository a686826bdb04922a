#include "actors/gateway/bodies/chat_messages.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "actors/gateway/bodies/json_text.hpp"
#include "config/limits.hpp"
#include "model/files/strict_json.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

// Part types that may be named in an error; anything else a client sends there is not repeated.
constexpr std::array<std::string_view, 7> other_parts = {"image_url", "input_image", "input_audio", "audio_url",
                                                         "video_url", "file",        "refusal"};

// Within a text its quotation marks would be escaped, so it is found as a member only.
constexpr std::string_view tool_calls_member = "\"tool_calls\":[";

void read_role(BodyFields& fields, std::string& into) {
    constexpr std::string_view right = "system, developer, user, assistant or tool";
    std::string role;
    fields.text("role", limits::name_bytes_max, role);
    if (role.empty()) return fields.missing("role", right);
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
        return fields.wrong("role", "unknown", right);
    }
    into = std::move(role);
}

void read_part(BodyFields& fields, std::string& into) {
    std::string type;
    fields.text("type", limits::name_bytes_max, type);
    if (type.empty()) return fields.missing("type", "text");
    if (type != "text") {
        const bool known = std::ranges::find(other_parts, type) != other_parts.end();
        return fields.wrong("type", known ? type : "unknown", "text", "unsupported_value");
    }
    if (fields.find("text") == nullptr) return fields.missing("text", "a string");
    std::string text;
    fields.text("text", limits::prompt_bytes_max, text);
    fields.refuse_others();
    into += text;
}

void read_content(BodyFields& fields, ChatMessage& into) {
    constexpr std::string_view right = "a string or a list of text parts";
    const Json* content = fields.find("content");
    if (content == nullptr) {
        if (into.role != "assistant") fields.missing("content", right);
    } else if (content->is_string()) {
        fields.text("content", limits::prompt_bytes_max, into.content);
    } else if (content->is_array() && !content->empty()) {
        for (size_t i = 0; i < content->size() && !fields.has_problem(); ++i) {
            auto part = fields.within(item_name("content", i), (*content)[i], "a text part");
            if (!part) return;
            if (i > 0) into.content += '\n';
            read_part(*part, into.content);
        }
    } else {
        fields.wrong("content", content->is_array() ? "an empty list" : "of another type", right, "invalid_type");
    }
}

/// One call as JSON.
std::string read_tool_call(BodyFields& fields) {
    std::string id, type = "function", name;
    int index = 0;  // what streams number calls by
    fields.text("id", limits::name_bytes_max, id);
    fields.text("type", limits::name_bytes_max, type);
    fields.whole("index", 0, static_cast<int64_t>(limits::tool_calls_max), index);
    if (type != "function") fields.wrong("type", "unknown", "function", "unsupported_value");
    const Json* function = fields.find("function");
    if (function == nullptr) {
        fields.missing("function", "an object");
        return {};
    }
    auto called = fields.within("function", *function, "an object");
    if (!called) return {};
    called->text("name", limits::name_bytes_max, name);
    if (name.empty()) called->missing("name", "a function's name");
    const std::string arguments = read_arguments(*called, 4);  // the message, its calls, the call, its function
    (void)called->find("parsed_arguments");                    // OpenAI's client puts the arguments there once more
    called->refuse_others();
    fields.refuse_others();
    return call_text(id, name, arguments);
}

void read_tool_calls(BodyFields& fields, std::string& more) {
    const Json* calls = fields.array("tool_calls", limits::tool_calls_max);
    if (calls == nullptr || calls->empty()) return;
    more += tool_calls_member;
    for (size_t i = 0; i < calls->size(); ++i) {
        auto call = fields.within(item_name("tool_calls", i), (*calls)[i], "a tool call");
        if (!call) return;
        if (i > 0) more += ',';
        more += read_tool_call(*call);
    }
    more += "],";
    if (fields.find("content") == nullptr) more += R"("content":null,)";
}

/// What a message carries beside its text: who says it, and what comes back of an answer.
void read_companions(BodyFields& fields, ChatMessage& into) {
    std::string more;
    const auto member = [&](const char* name, size_t bytes_max) {
        std::string text;
        fields.text(name, bytes_max, text);
        if (!text.empty()) more += json_text(name) + ":" + json_text(text) + ",";
    };
    member("name", limits::name_bytes_max);
    member("tool_call_id", limits::name_bytes_max);
    if (into.role == "assistant") {
        member("reasoning_content", limits::prompt_bytes_max);
        read_tool_calls(fields, more);
    } else {
        fields.refuse_unless("tool_calls", Json::array());
    }
    (void)fields.find("parsed");  // OpenAI's client puts there what it read in the content
    fields.refuse_unless("refusal", "");
    fields.refuse_unless("annotations", Json::array());
    for (const char* name : {"function_call", "audio"}) fields.refuse_unless(name, nullptr);
    into.more_json = further_members(std::move(more));
}

}  // namespace

std::string read_arguments(BodyFields& fields, size_t levels) {
    const JsonBounds bounds{.bytes_max = limits::prompt_bytes_max,
                            .depth_max = limits::json_depth_max - levels,
                            .values_max = limits::request_values_max};
    std::string text;
    fields.text("arguments", limits::prompt_bytes_max, text);
    if (text.empty()) return "{}";
    if (text.starts_with("\xEF\xBB\xBF") || !parse_json_object(text, "arguments", bounds))
        fields.wrong("arguments", "not the text of a JSON object", "a string like \"{\\\"city\\\": \\\"Oslo\\\"}\"");
    return text;
}

std::string call_text(const std::string& id, const std::string& name, const std::string& arguments) {
    return "{\"id\":" + json_text(id) + ",\"type\":\"function\",\"function\":{\"name\":" + json_text(name) +
           ",\"arguments\":" + arguments + "}}";
}

std::string further_members(std::string members) {
    if (!members.empty()) members.back() = '}';
    return members.empty() ? members : "{" + members;
}

bool has_tool_calls(const ChatMessage& message) {
    return message.more_json.find(tool_calls_member) != std::string::npos;
}

void read_messages(BodyFields& fields, std::string_view name, std::vector<ChatMessage>& into) {
    const Json* list = fields.array(name, limits::messages_max);
    if (list == nullptr) return;
    if (list->empty()) return fields.wrong(name, "an empty list", "at least one message");
    into.reserve(list->size());
    for (size_t i = 0; i < list->size() && !fields.has_problem(); ++i) {
        auto message = fields.within(item_name(name, i), (*list)[i], "a message");
        if (!message) return;
        into.emplace_back();
        read_role(*message, into.back().role);
        read_content(*message, into.back());
        read_companions(*message, into.back());
        message->refuse_others();
    }
}

}  // namespace rondo
