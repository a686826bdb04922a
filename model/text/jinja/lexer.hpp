#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja/value.hpp"

namespace rondo::jinja {

struct Token {
    enum class Kind { data, output_begin, output_end, tag_begin, tag_end, name, text, integer, number, sign, end };
    Kind kind;
    std::string text;  ///< decoded for strings, without underscores for numbers
    int line;

    bool is(Kind wanted, std::string_view wanted_text) const { return kind == wanted && text == wanted_text; }
    bool is_sign(std::string_view wanted) const { return is(Kind::sign, wanted); }
    bool is_name(std::string_view wanted) const { return is(Kind::name, wanted); }
};

/// Splits a template into tokens; ends with one `end`. White space is treated as with trim_blocks and lstrip_blocks on
/// and keep_trailing_newline off; comments and raw blocks are resolved here.
std::vector<Token> tokenize(std::string_view source);

}  // namespace rondo::jinja
