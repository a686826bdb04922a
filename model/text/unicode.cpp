#include "model/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "config/limits.hpp"

namespace rondo::unicode {

namespace {

constexpr char32_t replacement = 0xFFFD;

struct LeadByte {
    uint8_t length;  // 0: never opens a character
    uint8_t second_min, second_max;
};

// The second byte's range shuts out overlong forms, surrogates and values beyond U+10FFFF.
LeadByte lead_byte(uint8_t byte) {
    if (byte < 0x80) return {1, 0, 0};
    if (byte < 0xC2) return {0, 0, 0};
    if (byte < 0xE0) return {2, 0x80, 0xBF};
    if (byte < 0xF0) return {3, uint8_t(byte == 0xE0 ? 0xA0 : 0x80), uint8_t(byte == 0xED ? 0x9F : 0xBF)};
    if (byte < 0xF5) return {4, uint8_t(byte == 0xF0 ? 0x90 : 0x80), uint8_t(byte == 0xF4 ? 0x8F : 0xBF)};
    return {0, 0, 0};
}

size_t ascii_prefix(std::string_view text, size_t at) {
    constexpr uint64_t high_bits = 0x8080808080808080;
    uint64_t word;
    while (at + sizeof(word) <= text.size()) {
        std::memcpy(&word, text.data() + at, sizeof(word));
        if (word & high_bits) break;
        at += sizeof(word);
    }
    while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
    return at;
}

utf8proc_category_t category(char32_t value) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

int combining_class(utf8proc_int32_t value) {
    return utf8proc_get_property(value)->combining_class;
}

// utf8proc orders marks by adjacent swaps, which is quadratic in a run of marks; a stable sort of each run is the same
// order.
void order_marks(std::vector<utf8proc_int32_t>& values) {
    for (size_t at = 0; at < values.size();) {
        if (combining_class(values[at]) == 0) {
            ++at;
            continue;
        }
        size_t end = at + 1;
        while (end < values.size() && combining_class(values[end]) != 0) ++end;
        std::stable_sort(values.begin() + at, values.begin() + end,
                         [](auto a, auto b) { return combining_class(a) < combining_class(b); });
        at = end;
    }
}

}  // namespace

Decoded decode(std::string_view text, size_t at) {
    const auto first = static_cast<uint8_t>(text[at]);
    const LeadByte lead = lead_byte(first);
    if (lead.length == 1) return {Decoded::Kind::valid, 1, first};
    if (lead.length == 0) return {Decoded::Kind::invalid, 1, replacement};
    char32_t value = first & (0x7F >> lead.length);
    for (uint8_t i = 1; i < lead.length; ++i) {
        if (at + i >= text.size()) return {Decoded::Kind::incomplete, i, replacement};
        const auto byte = static_cast<uint8_t>(text[at + i]);
        const bool fits = i == 1 ? byte >= lead.second_min && byte <= lead.second_max : (byte & 0xC0) == 0x80;
        if (!fits) return {Decoded::Kind::invalid, i, replacement};
        value = value << 6 | (byte & 0x3F);
    }
    return {Decoded::Kind::valid, lead.length, value};
}

bool is_valid(std::string_view text) {
    for (size_t at = ascii_prefix(text, 0); at < text.size(); at = ascii_prefix(text, at)) {
        const Decoded c = decode(text, at);
        if (c.kind != Decoded::Kind::valid) return false;
        at += c.bytes;
    }
    return true;
}

bool is_one_character(std::string_view text) {
    if (text.empty()) return false;
    const Decoded c = decode(text, 0);
    return c.kind == Decoded::Kind::valid && c.bytes == text.size();
}

void append(std::string& out, char32_t value) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(value), bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

size_t repair(std::string_view bytes, bool at_end, std::string& out) {
    size_t at = 0;
    while (at < bytes.size()) {
        const size_t plain = ascii_prefix(bytes, at);
        out.append(bytes, at, plain - at);
        at = plain;
        if (at == bytes.size()) break;
        const Decoded c = decode(bytes, at);
        if (c.kind == Decoded::Kind::incomplete && !at_end) break;
        if (c.kind == Decoded::Kind::valid) {
            out.append(bytes, at, c.bytes);
        } else {
            append(out, replacement);
        }
        at += c.bytes;
    }
    return at;
}

bool is_whitespace(char32_t value) {
    if (value < 0x80) return value == ' ' || (value >= '\t' && value <= '\r');
    return value == 0x85 || value == 0xA0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200A) ||
           value == 0x2028 || value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

bool is_numeric(char32_t value) {
    const auto c = category(value);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t value) {
    // All of ASCII's, its symbols such as '$' and '+' too.
    if (value < 0x80) return value > ' ' && value < 0x7F && (value == '_' || !is_word(value));
    const auto c = category(value);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_word(char32_t value) {
    const auto c = category(value);
    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) return true;
    // Joiners, and the symbols that Unicode counts as alphabetic: circled and squared letters.
    const bool joins = c == UTF8PROC_CATEGORY_PC || value == 0x200C || value == 0x200D;
    return joins || (value >= 0x24B6 && value <= 0x24E9) || (value >= 0x1F130 && value <= 0x1F149) ||
           (value >= 0x1F150 && value <= 0x1F169) || (value >= 0x1F170 && value <= 0x1F189);
}

Result<std::string> normalize(std::string_view text, Form form) {
    const bool composed = form == Form::nfc || form == Form::nfkc;
    const bool compatible = form == Form::nfkc || form == Form::nfkd;
    const size_t plain = ascii_prefix(text, 0);
    if (plain == text.size()) return std::string(text);

    const auto options = static_cast<utf8proc_option_t>(
        UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0));
    std::vector<utf8proc_int32_t> values;
    values.reserve(text.size());
    std::array<utf8proc_int32_t, 64> parts;  // the longest decomposition of one character has 18
    for (size_t at = 0; at < text.size();) {
        const Decoded c = decode(text, at);
        at += c.bytes;
        int boundary = 0;
        const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts.data(), parts.size(),
                                                   options, &boundary);
        if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size()))
            return make_error(ErrorCode::internal, "Unicode decomposition failed");
        values.insert(values.end(), parts.begin(), parts.begin() + count);
        if (values.size() > limits::normalized_bytes_max)
            return make_error(ErrorCode::out_of_range, "the text grows beyond " +
                                                           std::to_string(limits::normalized_bytes_max) +
                                                           " bytes when normalized; shorten it");
    }
    order_marks(values);
    auto count = static_cast<utf8proc_ssize_t>(values.size());
    if (composed) count = utf8proc_normalize_utf32(values.data(), count, options);
    if (count < 0) return make_error(ErrorCode::internal, "Unicode composition failed");
    std::string out;
    out.reserve(text.size());
    for (utf8proc_ssize_t i = 0; i < count; ++i) append(out, static_cast<char32_t>(values[i]));
    return out;
}

std::string lowercase(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Decoded c = decode(text, at);
        at += c.bytes;
        if (c.value == 0x130) {  // the one letter whose small form is two characters
            out += "i\u0307";
        } else {
            append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.value))));
        }
    }
    return out;
}

}  // namespace rondo::unicode
