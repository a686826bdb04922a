#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/result.hpp"
#include "model/format/number_range.hpp"

namespace rondo {

/// An error that names a keyword of a schema ("" for the schema itself) and what it must be.
Error wrong_schema(const std::string& path, std::string_view word, std::string_view right);

Error schema_too_large(const std::string& path);

/// The types that a schema's values may have.
struct SchemaTypes {
    bool null = false, boolean = false, number = false, integer = false, string = false, array = false, object = false;

    bool has(const nlohmann::ordered_json& value) const;
};

/// What `type` says; without it the types that the schema's other keywords speak of, or all.
Result<SchemaTypes> types_of(const nlohmann::ordered_json& schema, const std::string& path);

struct SchemaCount {
    int64_t least = 0;
    int64_t most = -1;  ///< -1: any number
};

Result<SchemaCount> count_of(const nlohmann::ordered_json& schema, std::string_view least, std::string_view most,
                             const std::string& path);

/// What `minimum`, `maximum` and their exclusive forms say.
Result<NumberBounds> bounds_of(const nlohmann::ordered_json& schema, const std::string& path);

}  // namespace rondo
