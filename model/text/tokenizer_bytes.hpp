#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

/// GPT-2's alphabet, in which byte-level vocabularies are written: a printable Latin-1 byte is its own character, the
/// others are U+0100, U+0101 and so on.
char32_t character_of_byte(uint8_t byte);
/// -1 when the character stands for no byte.
int byte_of_character(char32_t character);

/// Appends each byte of `text` as its character.
void append_as_characters(std::string& out, std::string_view text);
/// The bytes that a token's characters stand for; the token itself when one of them stands for none.
std::string bytes_of_characters(std::string_view token);

/// The byte of a SentencePiece token "<0xXX>", -1 for any other.
int byte_of_name(std::string_view token);
std::string name_of_byte(uint8_t byte);

}  // namespace rondo
