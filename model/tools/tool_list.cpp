#include "model/tools/tool_list.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t name_characters_max = 64;

Error wrong(const std::string& what, const std::string& is, const std::string& right) {
    return make_error(ErrorCode::invalid_argument, what + " is " + is + ", must be " + right);
}

bool is_name(std::string_view name) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return !name.empty() && name.size() <= name_characters_max && name.find_first_not_of(letters) == name.npos;
}

/// A function without parameters has no arguments; where nothing else says so, arguments are still an object.
Result<Json> read_parameters(const Json& function, const std::string& where) {
    if (!function.contains("parameters") || function.at("parameters").is_null())
        return Json{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
    Json schema = function.at("parameters");
    const std::string right = "a JSON Schema whose type is object";
    if (!schema.is_object()) return wrong(where, "no object", right);
    if (!schema.contains("type")) schema["type"] = "object";
    if (schema.at("type") != "object") return wrong(where + ".type", "another type", "object");
    return schema;
}

Result<Tool> read_tool(const Json& item, const std::string& where) {
    if (!item.is_object()) return wrong(where, "of another type", "an object");
    if (!item.contains("type") || item.at("type") != "function")
        return wrong(where + ".type", item.contains("type") ? "unknown" : "missing", "function");
    const std::string at = where + ".function";
    if (!item.contains("function") || !item.at("function").is_object())
        return wrong(at, item.contains("function") ? "of another type" : "missing", "an object");
    const Json& function = item.at("function");
    constexpr std::array<std::string_view, 4> members{"name", "description", "parameters", "strict"};
    for (const auto& [name, value] : function.items()) {
        if (std::ranges::find(members, name) != members.end() || value.is_null()) continue;
        return wrong(at, "with " + in_quotes(name), "name, description, parameters and strict");
    }
    Tool tool;
    tool.where = at + ".parameters";
    const auto text = [&](const char* name) { return function.value(name, Json()); };
    if (!text("name").is_string() || !is_name(text("name").get_ref<const std::string&>()))
        return wrong(at + ".name", text("name").is_null() ? "missing" : "not allowed",
                     "1 to " + std::to_string(name_characters_max) + " letters, digits, '_', '-' and '.'");
    tool.name = text("name").get<std::string>();
    if (!text("description").is_null() && !text("description").is_string())
        return wrong(at + ".description", "of another type", "a string");
    if (!text("strict").is_null() && !text("strict").is_boolean())
        return wrong(at + ".strict", "of another type", "true or false");
    tool.strict = text("strict") == true;
    RONDO_ASSIGN(tool.parameters, read_parameters(function, tool.where));
    return tool;
}

}  // namespace

Result<std::vector<Tool>> read_tools(const Json& list, const std::string& where) {
    const std::string right = "a list of 1 to " + std::to_string(limits::tools_max) + " tools";
    if (!list.is_array()) return wrong(where, "of another type", right);
    if (list.empty() || list.size() > limits::tools_max)
        return wrong(where, "a list of " + std::to_string(list.size()), right);
    std::vector<Tool> tools;
    std::set<std::string_view> names;
    for (size_t i = 0; i < list.size(); ++i) {
        RONDO_ASSIGN(Tool tool, read_tool(list[i], where + "[" + std::to_string(i) + "]"));
        tools.push_back(std::move(tool));
    }
    for (size_t i = 0; i < tools.size(); ++i) {
        if (names.insert(tools[i].name).second) continue;
        return wrong(where + "[" + std::to_string(i) + "].function.name", "that of another tool", "its own");
    }
    return tools;
}

}  // namespace rondo
