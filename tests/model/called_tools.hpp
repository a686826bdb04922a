#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "model/model.hpp"
#include "model/tools/called_tools.hpp"

/// Templates that write calls, and tools. What should not fail throws, so that tests stay short.
namespace rondo::testing {

inline ChatTemplate compiled(std::string_view source) {
    auto made = ChatTemplate::parse(source, "test");
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
}

/// One of tests/fixtures/templates.
inline ChatTemplate template_of(const std::string& name) {
    std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/tests/fixtures/templates/" + name + ".jinja");
    if (!file) throw std::runtime_error("no template " + name);
    return compiled(std::string{std::istreambuf_iterator<char>(file), {}});
}

inline CallStyle style_of_template(const std::string& name) {
    auto style = find_call_style(template_of(name));
    if (!style) throw std::runtime_error(name + " has no style");
    return *std::move(style);
}

inline constexpr const char* two_tools = R"([
    {"type":"function","function":{"name":"weather","description":"Tells it.","strict":true,"parameters":{
        "type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
        "units":{"enum":["C","F",["a",{"b":1}]]}},"required":["city"],"additionalProperties":false}}},
    {"type":"function","function":{"name":"clock"}}])";

inline std::shared_ptr<const ToolUse> tools_of(const CallStyle& style, const ToolChoice& choice = {},
                                               std::string_view tools = two_tools) {
    auto made = ToolUse::make(tools, choice, &style, "tools");
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
}

}  // namespace rondo::testing
