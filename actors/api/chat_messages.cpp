#include "actors/api/chat_messages.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

// Part types that may be named in an error; anything else a client sends there is not repeated.
constexpr std::array<std::string_view, 7> other_parts = {"image_url", "input_image", "input_audio", "audio_url",
                                                         "video_url", "file",        "refusal"};

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

/// What an assistant's or a tool's message carries beside its text when a client sends an answer back.
void read_companions(BodyFields& fields) {
    std::string ignored;
    fields.text("tool_call_id", limits::name_bytes_max, ignored);
    fields.refuse_unless("refusal", "");
    for (const char* name : {"tool_calls", "annotations"}) fields.refuse_unless(name, Json::array());
    for (const char* name : {"name", "function_call", "audio"}) fields.refuse_unless(name, nullptr);
}

}  // namespace

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
        read_companions(*message);
        message->refuse_others();
    }
}

}  // namespace rondo
