#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "model/format/characters.hpp"

namespace rondo {

/// A regular expression as a tree.
struct RegexPart {
    enum class Kind : uint8_t { characters, sequence, choice, times };
    Kind kind = Kind::sequence;
    Characters characters = {};
    std::vector<RegexPart> parts = {};  ///< times: the one that is repeated
    int64_t least = 0, most = -1;       ///< times; -1: any number
};

/// One way of a whole expression, and whether a text begins and ends with it.
struct RegexWay {
    RegexPart part;
    bool from_begin = false, to_end = false;
};

/// An expression and, where it cannot be read, from which byte on.
struct ParsedRegex {
    std::vector<RegexWay> ways;
    std::optional<size_t> wrong_at;
};

ParsedRegex parse_regex(std::string_view text);

}  // namespace rondo
