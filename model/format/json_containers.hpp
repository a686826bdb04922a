#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/format/json_parts.hpp"

namespace rondo {

/// What a list holds: first values of their own kinds, then others of one kind; from `least` to `most` (-1: any
/// number).
struct JsonItems {
    std::vector<ByteGrammar::Rule> first;
    ByteGrammar::Rule rest;
    int64_t least = 0, most = -1;
};

struct JsonMember {
    std::string name;
    ByteGrammar::Rule value;
    bool required;
};

ByteGrammar::Node list_of(ByteGrammar& grammar, JsonParts& parts, const JsonItems& items);

/// Members in their order, those left out that are not required; behind them others, where there may be some.
ByteGrammar::Node object_of(ByteGrammar& grammar, JsonParts& parts, const std::vector<JsonMember>& members,
                            std::optional<ByteGrammar::Rule> others);

}  // namespace rondo
