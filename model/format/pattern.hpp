#pragma once

#include <string>
#include <string_view>

#include "config/result.hpp"
#include "model/format/json_parts.hpp"

namespace rondo {

/// Strings in which a regular expression finds something (ECMA-262, by characters; no look-around, back-references and
/// word boundaries; ^ and $ where a whole alternative begins and ends). `path` is the place of the schema.
Result<ByteGrammar::Node> string_of_pattern(std::string_view pattern, const std::string& path, ByteGrammar& grammar,
                                            JsonParts& parts);

/// The pattern of a format of JSON Schema's; "" for those that are taken for a note.
std::string_view pattern_of_format(std::string_view format);

}  // namespace rondo
