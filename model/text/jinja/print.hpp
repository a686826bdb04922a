#pragma once

#include <string>

#include "model/text/jinja/runtime.hpp"

namespace rondo::jinja {

/// Appends str(value); nothing for an undefined one. What has no stable text in Python (a macro, a lazy sequence) is a
/// fault.
void print(TextBuilder& out, const Value& value);
/// str(value) as a string of its own, without a copy when it is a string already.
Text to_text(Runtime& runtime, const Value& value);
/// Python's repr of a float: the shortest digits that read back as the same number.
std::string float_text(double number);

/// The arguments of Hugging Face's `tojson`, which are those of Python's json.dumps.
struct JsonStyle {
    bool ascii = false;
    bool sorted = false;
    bool indented = false;
    std::string indent;  ///< one level of it
    std::string item_separator = ", ";
    std::string key_separator = ": ";
};
void print_json(TextBuilder& out, const Value& value, const JsonStyle& style);

/// The value a JSON text stands for; an object keeps its order. Numbers that would lose digits are a fault.
/// `what` names it in faults.
Value parse_json(Runtime& runtime, std::string_view json, std::string_view what);

}  // namespace rondo::jinja
