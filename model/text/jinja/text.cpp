#include "model/text/jinja/text.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "model/text/find_piece.hpp"

namespace rondo::jinja {

char32_t decode(std::string_view text, size_t at, size_t& size) {
    utf8proc_int32_t code_point;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    if (bytes[0] < 0x80) {
        size = 1;
        return bytes[0];
    }
    const auto used = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    size = used > 0 ? static_cast<size_t>(used) : 1;
    return used > 0 ? static_cast<char32_t>(code_point) : U'\uFFFD';
}

void append_utf8(std::string& out, char32_t code_point) {
    utf8proc_uint8_t bytes[4];
    const auto used = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(used));
}

size_t count_characters(std::string_view text) {
    size_t count = 0;
    for (size_t at = 0, size; at < text.size(); at += size, ++count) decode(text, at, size);
    return count;
}

std::vector<std::string_view> characters(std::string_view text) {
    std::vector<std::string_view> out;
    for (size_t at = 0, size; at < text.size(); at += size) {
        decode(text, at, size);
        out.push_back(text.substr(at, size));
    }
    return out;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_space(char32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
            return false;
        case UTF8PROC_CATEGORY_ZS:
            return c == ' ';
        default:
            return true;
    }
}

bool is_valid_utf8(std::string_view text) {
    for (size_t at = 0, size; at < text.size(); at += size)
        if (decode(text, at, size) == U'\uFFFD' && size == 1) return false;
    return true;
}

namespace {

enum class Case { upper, lower, title };

void append_cased(std::string& out, std::string_view text, size_t at, size_t size, char32_t c, Case to) {
    if (c == U'\uFFFD' && size == 1) {
        out.push_back(text[at]);
    } else if (c == U'ß' && to != Case::lower) {
        out += to == Case::upper ? "SS" : "Ss";
    } else {
        const auto code_point = static_cast<utf8proc_int32_t>(c);
        append_utf8(out, static_cast<char32_t>(to == Case::upper   ? utf8proc_toupper(code_point)
                                               : to == Case::lower ? utf8proc_tolower(code_point)
                                                                   : utf8proc_totitle(code_point)));
    }
}

std::string map_case(std::string_view text, Case first, Case rest) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0, size; at < text.size(); at += size) {
        const char32_t c = decode(text, at, size);
        append_cased(out, text, at, size, c, at == 0 ? first : rest);
    }
    return out;
}

bool is_cased(char32_t c) {
    const auto code_point = static_cast<utf8proc_int32_t>(c);
    return utf8proc_isupper(code_point) || utf8proc_islower(code_point) ||
           utf8proc_category(code_point) == UTF8PROC_CATEGORY_LT;
}

/// The size of the character that ends at `end`.
size_t last_size(std::string_view text, size_t end) {
    for (size_t back = 2; back <= std::min<size_t>(4, end); ++back) {
        size_t size;
        decode(text, end - back, size);
        if (size == back) return back;
    }
    return 1;
}

template <class Inside>
std::string_view strip_while(std::string_view text, Side side, Inside inside) {
    size_t begin = 0, end = text.size();
    while (side != Side::right && begin < end) {
        size_t size;
        decode(text, begin, size);
        if (!inside(text.substr(begin, size))) break;
        begin += size;
    }
    while (side != Side::left && end > begin) {
        const size_t size = last_size(text, end);
        if (!inside(text.substr(end - size, size))) break;
        end -= size;
    }
    return text.substr(begin, end - begin);
}

bool is_space_character(std::string_view character) {
    size_t size;
    return is_space(decode(character, 0, size));
}

}  // namespace

std::string upper(std::string_view text) {
    return map_case(text, Case::upper, Case::upper);
}
std::string lower(std::string_view text) {
    return map_case(text, Case::lower, Case::lower);
}
std::string capitalize(std::string_view text) {
    return map_case(text, Case::title, Case::lower);
}

std::string title(std::string_view text) {
    std::string out;
    bool in_word = false;
    for (size_t at = 0, size; at < text.size(); at += size) {
        const char32_t c = decode(text, at, size);
        append_cased(out, text, at, size, c, in_word ? Case::lower : Case::title);
        in_word = is_cased(c);
    }
    return out;
}

std::string title_filter(std::string_view text) {
    std::string out;
    bool in_word = false;
    for (size_t at = 0, size; at < text.size(); at += size) {
        const char32_t c = decode(text, at, size);
        append_cased(out, text, at, size, c, in_word ? Case::lower : Case::upper);
        in_word = !is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<';
    }
    return out;
}

std::string_view strip(std::string_view text, Side side) {
    return strip_while(text, side, is_space_character);
}

std::string_view strip(std::string_view text, Side side, std::string_view chars) {
    auto set = characters(chars);
    std::sort(set.begin(), set.end());
    return strip_while(
        text, side, [&](std::string_view character) { return std::binary_search(set.begin(), set.end(), character); });
}

std::vector<std::string_view> split_space(std::string_view text, size_t splits_max) {
    std::vector<std::string_view> out;
    text = strip(text, Side::left);
    while (!text.empty()) {
        size_t end = 0, size;
        while (end < text.size() && !is_space(decode(text, end, size))) end += size;
        if (out.size() == splits_max) end = text.size();
        out.push_back(text.substr(0, end));
        text = strip(text.substr(end), Side::left);
    }
    return out;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, size_t splits_max) {
    std::vector<std::string_view> out;
    for (size_t at; out.size() < splits_max && (at = find_piece(text, separator)) != std::string_view::npos;) {
        out.push_back(text.substr(0, at));
        text.remove_prefix(at + separator.size());
    }
    out.push_back(text);
    return out;
}

std::vector<std::string_view> split_lines(std::string_view text) {
    std::vector<std::string_view> out;
    size_t begin = 0;
    for (size_t at = 0, size; at < text.size(); at += size) {
        const char32_t c = decode(text, at, size);
        if (!((c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029)) continue;
        out.push_back(text.substr(begin, at - begin));
        if (c == '\r' && text.substr(at + 1, 1) == "\n") size = 2;
        begin = at + size;
    }
    if (begin < text.size()) out.push_back(text.substr(begin));
    return out;
}

size_t count_occurrences(std::string_view text, std::string_view piece) {
    if (piece.empty()) return count_characters(text) + 1;
    size_t count = 0;
    for (size_t at = 0; (at = find_piece(text, piece, at)) != std::string_view::npos; at += piece.size()) ++count;
    return count;
}

}  // namespace rondo::jinja
