#include "model/text/tokenizer_bytes.hpp"

#include <array>

#include "model/text/unicode.hpp"

namespace rondo {

namespace {

constexpr char32_t last_character = 0x143;

struct Alphabet {
    std::array<char32_t, 256> character{};
    std::array<int16_t, last_character + 1> byte{};

    constexpr Alphabet() {
        byte.fill(-1);
        char32_t next = 0x100;
        for (int b = 0; b < 256; ++b) {
            const bool prints = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
            character[b] = prints ? static_cast<char32_t>(b) : next++;
            byte[character[b]] = static_cast<int16_t>(b);
        }
    }
};

constexpr Alphabet alphabet;
constexpr std::string_view digits = "0123456789ABCDEF";

}  // namespace

char32_t character_of_byte(uint8_t byte) {
    return alphabet.character[byte];
}

int byte_of_character(char32_t character) {
    return character <= last_character ? alphabet.byte[character] : -1;
}

void append_as_characters(std::string& out, std::string_view text) {
    for (const char c : text) {
        const char32_t character = character_of_byte(static_cast<uint8_t>(c));
        if (character < 0x80) {
            out += static_cast<char>(character);
        } else {
            out += static_cast<char>(0xC0 | character >> 6);
            out += static_cast<char>(0x80 | (character & 0x3F));
        }
    }
}

std::string bytes_of_characters(std::string_view token) {
    std::string out;
    for (size_t at = 0; at < token.size();) {
        const auto c = unicode::decode(token, at);
        const int byte = c.kind == unicode::Decoded::Kind::valid ? byte_of_character(c.value) : -1;
        if (byte < 0) return std::string(token);
        out += static_cast<char>(byte);
        at += c.bytes;
    }
    return out;
}

int byte_of_name(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    const size_t high = digits.find(token[3]), low = digits.find(token[4]);
    if (high == std::string_view::npos || low == std::string_view::npos) return -1;
    return static_cast<int>(high * 16 + low);
}

std::string name_of_byte(uint8_t byte) {
    return std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">";
}

}  // namespace rondo
