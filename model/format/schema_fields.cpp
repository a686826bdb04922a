#include "model/format/schema_fields.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::ordered_json;

bool mentions(const Json& schema, std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [&](std::string_view word) { return schema.contains(word); });
}

bool set_type(std::string_view name, SchemaTypes& types) {
    if (name == "null") return types.null = true;
    if (name == "boolean") return types.boolean = true;
    if (name == "number") return types.number = true;
    if (name == "integer") return types.integer = true;
    if (name == "string") return types.string = true;
    if (name == "array") return types.array = true;
    if (name == "object") return types.object = true;
    return false;
}

// Beyond these a bound has more digits than numbers are given.
constexpr double bound_min = 1e-30;
constexpr double bound_max = 1e15;

}  // namespace

Error wrong_schema(const std::string& path, std::string_view word, std::string_view right) {
    return make_error(ErrorCode::invalid_argument,
                      path + (word.empty() ? "" : "." + std::string(word)) + " must be " + std::string(right));
}

Error schema_too_large(const std::string& path) {
    return make_error(ErrorCode::out_of_range, path + " is too large; must be less of names, choices and counts");
}

bool SchemaTypes::has(const Json& value) const {
    switch (value.type()) {
        case Json::value_t::null:
            return null;
        case Json::value_t::boolean:
            return boolean;
        case Json::value_t::string:
            return string;
        case Json::value_t::array:
            return array;
        case Json::value_t::object:
            return object;
        case Json::value_t::number_float:
            return number;
        default:
            return number || integer;
    }
}

Result<SchemaTypes> types_of(const Json& schema, const std::string& path) {
    constexpr std::string_view right = "one or a list of null, boolean, integer, number, string, array and object";
    SchemaTypes types;
    if (schema.contains("type")) {
        const Json& type = schema.at("type");
        const Json list = type.is_array() ? type : Json::array({type});
        for (const Json& name : list)
            if (!name.is_string() || !set_type(name.get_ref<const std::string&>(), types))
                return wrong_schema(path, "type", right);
        if (list.empty()) return wrong_schema(path, "type", right);
        return types;
    }
    types.object = mentions(schema, {"properties", "required", "additionalProperties"});
    types.array = mentions(schema, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"});
    types.string = mentions(schema, {"minLength", "maxLength", "pattern"});
    types.number = mentions(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
    if (!types.object && !types.array && !types.string && !types.number)
        return SchemaTypes{true, true, true, true, true, true, true};
    return types;
}

Result<SchemaCount> count_of(const Json& schema, std::string_view least, std::string_view most,
                             const std::string& path) {
    SchemaCount count;
    const std::string right = "a whole number from 0 to " + std::to_string(limits::format_nodes_max);
    for (const auto& [word, into] : {std::pair{least, &count.least}, std::pair{most, &count.most}}) {
        if (!schema.contains(word)) continue;
        const Json& value = schema.at(word);
        if (!value.is_number_unsigned() || value.get<uint64_t>() > limits::format_nodes_max)
            return wrong_schema(path, word, right);
        *into = value.get<int64_t>();
    }
    if (count.most >= 0 && count.least > count.most)
        return wrong_schema(path, least, "no more than " + std::string(most));
    return count;
}

Result<NumberBounds> bounds_of(const Json& schema, const std::string& path) {
    NumberBounds bounds;
    for (const std::string_view word : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
        if (!schema.contains(word)) continue;
        const Json& value = schema.at(word);
        const double number = value.is_number() ? value.get<double>() : 2 * bound_max;
        if (!(std::abs(number) <= bound_max && (number == 0 || std::abs(number) >= bound_min)))
            return wrong_schema(path, word, "0 or a number of 1e-30 to 1e15, or the negative of one");
        const bool is_least = word.ends_with("inimum");
        const bool excluded = word.starts_with("exclusive");
        is_least ? bounds.raise(number, excluded) : bounds.lower(number, excluded);
    }
    return bounds;
}

}  // namespace rondo
