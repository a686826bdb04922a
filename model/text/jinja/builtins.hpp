#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja/runtime.hpp"

namespace rondo::jinja {

/// The arguments of a call, in the order of the builtin's parameters.
struct Arguments {
    std::vector<Value> values;  ///< undefined where not given
    std::vector<bool> given;
    std::vector<Value> rest;                           ///< of a builtin that takes any number
    std::vector<std::pair<std::string, Value>> named;  ///< likewise

    bool has(size_t i) const { return given[i]; }
    const Value& operator[](size_t i) const { return values[i]; }
};

/// A filter, test, method or function. `self` is the value it is applied to, undefined for a function.
/// `parameters` lists names parted by spaces: `name?` may be missing, `/` in front makes all of them positional only,
/// and
/// `...` stands for any further ones.
struct Builtin {
    std::string_view name;
    std::string_view parameters;
    Value (*run)(Runtime& runtime, const Value& self, Arguments& arguments);
};

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
/// The method `name` of the type of `value`, or null.
const Builtin* find_method(const Value& value, std::string_view name);
bool is_method_of_some_type(std::string_view name);
/// True for an attribute that the type has in Python but not here: it must not be mistaken for a missing one.
bool is_foreign_attribute(const Value& value, std::string_view name);

/// A fault if a call with so many positional arguments and these names cannot be meant for `builtin`.
void check_arguments(const Builtin& builtin, size_t positional, const std::vector<std::string_view>& names);
Arguments bind(const Builtin& builtin, std::vector<Value> positional, std::vector<std::pair<std::string, Value>> named);

// The tables of names, one in each of *_filters.cpp, tests.cpp and functions.cpp.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> tests();
std::span<const Builtin> functions();

/// What several builtins ask of their arguments.
std::string_view text_argument(const Value& value, std::string_view what);
int64_t integer_argument(const Value& value, std::string_view what);
/// str.replace; a negative count replaces all.
Value replace_text(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to, int64_t count);
/// `attribute` as `map` and `sort` take it: a name, a number or a path parted by dots; None is the item itself. What is
/// undefined on the way becomes `fallback`, unless that is null or None.
Value follow_path(Runtime& runtime, Value item, const Value& path, const Value* fallback = nullptr);

}  // namespace rondo::jinja
