#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/result.hpp"
#include "model/format/json_parts.hpp"

namespace rondo {

/// A rule for the JSON values that a JSON Schema describes, members in the order of the schema. Texts of the rule are
/// always valid; not all valid texts are texts of the rule (README.md). A schema that asks for what cannot be kept is
/// an error that names the place; `where` stands before it.
Result<ByteGrammar::Rule> rule_of_schema(const nlohmann::ordered_json& schema, const std::string& where,
                                         ByteGrammar& grammar, JsonParts& parts);

}  // namespace rondo
