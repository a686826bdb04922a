#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/result.hpp"

/// What tokenizers need of Unicode. Class tables and normal forms come from utf8proc.
namespace rondo::unicode {

struct Decoded {
    enum class Kind : uint8_t {
        valid,
        invalid,    ///< `bytes` is the maximal subpart of an ill-formed sequence
        incomplete  ///< the text ends inside a character that could still become valid
    };
    Kind kind;
    uint8_t bytes;
    char32_t value;
};

/// The character at `text[at]`; `at` is below the text's size.
Decoded decode(std::string_view text, size_t at);
bool is_valid(std::string_view text);
bool is_one_character(std::string_view text);
/// Bytes of the character that a valid UTF-8 lead byte opens.
inline size_t length_of(char lead) {
    const auto byte = static_cast<uint8_t>(lead);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
void append(std::string& out, char32_t value);

/// Appends `bytes` to `out` with each ill-formed maximal subpart as one U+FFFD. Unless `at_end`, an incomplete
/// character at the end is left out. Returns how many bytes were used.
size_t repair(std::string_view bytes, bool at_end, std::string& out);

bool is_whitespace(char32_t value);
bool is_numeric(char32_t value);
bool is_punctuation(char32_t value);
/// A letter, mark, number or connector: what stands next to a whole-word token makes it part of a longer word.
bool is_word(char32_t value);

enum class Form { nfc, nfd, nfkc, nfkd };
/// Needs valid UTF-8. Time is O(n log n) also for long runs of combining marks.
Result<std::string> normalize(std::string_view text, Form form);
std::string lowercase(std::string_view text);

}  // namespace rondo::unicode
