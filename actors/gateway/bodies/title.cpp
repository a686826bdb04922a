#include "actors/gateway/bodies/title.hpp"

#include <algorithm>

#include "actors/gateway/bodies/conversation_id.hpp"
#include "config/limits.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace {

constexpr size_t characters_max = 80;  // of a title that nobody gave
constexpr size_t looked_at_bytes_max = 4096;

std::string_view trimmed(std::string_view line) {
    constexpr std::string_view blanks = " \t\r";
    const size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
}

std::string_view first_line(std::string_view text) {
    text = text.substr(0, looked_at_bytes_max);
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        if (const std::string_view line = trimmed(text.substr(0, end)); !line.empty()) return line;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return {};
}

}  // namespace

bool is_title(std::string_view text) {
    size_t characters = 0;
    bool says_something = false;
    for (size_t at = 0; at < text.size(); ++characters) {
        const unicode::Decoded c = unicode::decode(text, at);
        if (characters == limits::title_characters_max) return false;
        if (c.kind != unicode::Decoded::Kind::valid || !is_printable(c.value)) return false;
        says_something = says_something || !unicode::is_whitespace(c.value);
        at += c.bytes;
    }
    return says_something;
}

Status check_title(std::string_view text) {
    if (is_title(text)) return Status::ok();
    return make_error(ErrorCode::invalid_argument, "the conversation's title must have 1 to " +
                                                       std::to_string(limits::title_characters_max) +
                                                       " characters of printable UTF-8, and more than spaces");
}

std::string title_of(std::string_view message) {
    const std::string_view line = first_line(message);
    std::string title;
    size_t characters = 0;
    for (size_t at = 0; at < line.size(); ++characters) {
        if (characters == characters_max) return title + "…";
        const unicode::Decoded c = unicode::decode(line, at);
        const bool is_shown = c.kind == unicode::Decoded::Kind::valid && is_printable(c.value);
        title += is_shown ? line.substr(at, c.bytes) : " ";
        at += c.bytes;
    }
    return std::string(trimmed(title));
}

}  // namespace rondo
