#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Python's view of a UTF-8 string: code points, its notion of space, its case mapping (one code point to one, but for
/// ß). A byte that is not part of valid UTF-8 counts as one character and is passed on as it is.
namespace rondo::jinja {

inline constexpr size_t no_limit = static_cast<size_t>(-1);

/// The code point at `at`, and its bytes in `size`; U+FFFD of size 1 for a bad byte.
char32_t decode(std::string_view text, size_t at, size_t& size);
void append_utf8(std::string& out, char32_t code_point);
size_t count_characters(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);
bool is_digit(char c);  ///< of ASCII
bool is_space(char32_t code_point);
bool is_printable(char32_t code_point);
bool is_valid_utf8(std::string_view text);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);         ///< as str.title: a word is a run of cased characters
std::string title_filter(std::string_view text);  ///< as Jinja's filter: words are parted by space, - ( { [ <

enum class Side { left, right, both };
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view chars);
std::vector<std::string_view> split_space(std::string_view text, size_t splits_max);
std::vector<std::string_view> split(std::string_view text, std::string_view separator, size_t splits_max);
std::vector<std::string_view> split_lines(std::string_view text);
size_t count_occurrences(std::string_view text, std::string_view piece);

}  // namespace rondo::jinja
