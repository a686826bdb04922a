#include "model/tools/call_style.hpp"

#include <algorithm>
#include <vector>

namespace rondo {

namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr size_t style_bytes_max = 4096;  // of its texts
constexpr size_t cue_bytes_max = 64;
// What templates write of themselves has none of these.
constexpr std::string_view probe_text = "Zq~";
constexpr std::string_view probe_names[] = {"q1Zf", "q2Zg"};
constexpr std::string_view probe_ids[] = {"q1Z00000a", "q2Z00000b"};
constexpr std::string_view probe_arguments = R"({"q3Z":"q4","q5Z":[1,true]})";

static_assert(probe_ids[0].size() == CallStyle::id_characters);

std::optional<std::string> written(const ChatTemplate& chat_template, std::string_view content, size_t calls) {
    ChatTemplateInput input;
    input.messages = {{"user", "a"}, {"assistant", std::string(content)}};
    input.add_generation_prompt = false;
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    std::string list;
    for (size_t i = 0; i < calls; ++i) {
        list += i == 0 ? "" : ",";
        list += R"({"id":")" + std::string(probe_ids[i]) + R"(","type":"function","function":{"name":")" +
                std::string(probe_names[i]) + R"(","arguments":)" + std::string(probe_arguments) + "}}";
    }
    if (calls > 0) input.messages.back().more_json = R"({"content":null,"tool_calls":[)" + list + "]}";
    auto rendered = chat_template.render(input);
    if (!rendered) return {};
    return *std::move(rendered);
}

/// What stands in `all` in place of `text` in `other`; before it `other` may have more white space.
std::string in_place_of(std::string_view all, std::string_view other, std::string_view text) {
    const size_t at = other.find(text);
    if (at == std::string_view::npos) return {};
    const std::string_view before = other.substr(0, at), end = other.substr(at + text.size());
    const auto same = static_cast<size_t>(
        std::ranges::mismatch(before.begin(), before.end(), all.begin(), all.end()).in1 - before.begin());
    const bool begins_alike = before.find_first_not_of(blanks, same) == std::string_view::npos;
    if (!begins_alike || !all.ends_with(end) || all.size() < same + end.size()) return {};
    return std::string(all.substr(same, all.size() - same - end.size()));
}

/// Takes what stands in `rest` before `part`, and both away.
std::optional<std::string> take_before(std::string_view& rest, std::string_view part) {
    const size_t at = rest.find(part);
    if (at == std::string_view::npos) return {};
    std::string before(rest.substr(0, at));
    rest.remove_prefix(at + part.size());
    return before;
}

std::string spelled_arguments(JsonSpelling spelling) {
    return json_written(nlohmann::ordered_json::parse(probe_arguments), spelling);
}

/// Of one call; `next` is not known from that.
std::optional<CallStyle> style_of(std::string_view call) {
    CallStyle style;
    const auto is_written = [&](JsonSpelling spelling) { return call.find(spelled_arguments(spelling)) < call.size(); };
    style.spelling = is_written(JsonSpelling::spaced) ? JsonSpelling::spaced : JsonSpelling::compact;
    std::string_view rest = call;
    auto begin = take_before(rest, probe_names[0]);
    if (!begin || begin->find(probe_ids[0]) < begin->size()) return {};
    auto between = take_before(rest, spelled_arguments(style.spelling));
    if (!between || between->empty() || between->find(probe_ids[0]) < between->size()) return {};
    style.begin = *std::move(begin);
    style.between = *std::move(between);
    if (auto before_id = take_before(rest, probe_ids[0])) style.before_id = *std::move(before_id);
    style.behind = rest;
    const bool is_odd =
        style.cue().empty() || rest.find(probe_names[0]) < rest.size() || rest.find(probe_ids[0]) < rest.size();
    if (is_odd) return {};
    return style;
}

/// Of two calls the text between them; "" where they are not written in the style of one.
std::string next_of(std::string_view calls, const CallStyle& style) {
    const std::string given = spelled_arguments(style.spelling);
    const auto one = [&](size_t i) {
        const std::string id = style.before_id.empty() ? std::string() : style.before_id + std::string(probe_ids[i]);
        return std::string(probe_names[i]) + style.between + given + id;
    };
    const std::string first = style.begin + one(0), second = one(1) + style.behind;
    if (!calls.starts_with(first) || !calls.ends_with(second) || calls.size() < first.size() + second.size()) return {};
    return std::string(calls.substr(first.size(), calls.size() - first.size() - second.size()));
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string_view CallStyle::cue() const {
    const std::string_view all(begin);
    const std::string_view trimmed = all.substr(std::min(all.find_first_not_of(blanks), all.size()));
    const bool is_tag = trimmed.size() > 1 && (trimmed[0] == '<' || (trimmed[0] == '[' && is_letter(trimmed[1])));
    const size_t end = is_tag ? trimmed.find(trimmed[0] == '<' ? '>' : ']') : std::string_view::npos;
    return trimmed.substr(0, end == std::string_view::npos ? end : end + 1);
}

bool CallStyle::only_first() const {
    return cue()[0] != '<' && !(cue()[0] == '[' && is_letter(cue()[1]));
}

std::optional<CallStyle> find_call_style(const ChatTemplate& chat_template) {
    if (!chat_template.names("tools") || !chat_template.names("tool_calls")) return {};
    const auto plain = written(chat_template, probe_text, 0), one = written(chat_template, "", 1);
    if (!plain || !one) return {};
    auto style = style_of(in_place_of(*one, *plain, probe_text));
    if (!style) return {};
    if (const auto two = written(chat_template, "", 2))
        style->next = next_of(in_place_of(*two, *plain, probe_text), *style);
    const size_t bytes = style->begin.size() + style->between.size() + style->before_id.size() + style->next.size() +
                         style->behind.size();
    if (bytes > style_bytes_max || style->cue().size() > cue_bytes_max) return {};
    return style;
}

}  // namespace rondo
