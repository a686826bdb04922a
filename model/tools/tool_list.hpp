#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// A function that a model may call.
struct Tool {
    std::string name;
    nlohmann::ordered_json parameters;  ///< a schema of its arguments, which are an object
    bool strict = false;                ///< who wrote the schema counts on it
    std::string where;                  ///< the schema stands in the list
};

/// Reads a list of tools in OpenAI's form; `where` is its name in errors.
Result<std::vector<Tool>> read_tools(const nlohmann::ordered_json& list, const std::string& where);

}  // namespace rondo
