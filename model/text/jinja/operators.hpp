#pragma once

#include <string_view>
#include <vector>

#include "model/text/jinja/ast.hpp"
#include "model/text/jinja/runtime.hpp"

/// What Python's operators and Jinja's lookups do with values. Whatever Python would refuse is a fault.
namespace rondo::jinja {

/// A fault that names an undefined value.
void require_defined(const Value& value);
bool truthy(const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
/// Whether `a op b` holds, op one of the four orders; a fault where Python cannot order the two.
bool is_ordered(Runtime& runtime, Comparison op, const Value& a, const Value& b);
/// Whether `value` may be the key of a dict.
bool is_hashable(Runtime& runtime, const Value& value);
bool contains(Runtime& runtime, const Value& container, const Value& item);

Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value negate(const Value& value);

int64_t length(Runtime& runtime, const Value& value);
/// The items of an iterable: elements, keys of a dict, characters of a string.
std::vector<Value> items_of(Runtime& runtime, const Value& value);
/// `dict[key]`, or null.
const Value* find_entry(Runtime& runtime, const Dict& dict, const Value& key);

/// `value.name`: a method or attribute first, then an item.
Value attribute_of(Runtime& runtime, const Value& value, std::string_view name);
/// `value[index]`: an item first, then a method or attribute.
Value item_of(Runtime& runtime, const Value& value, const Value& index);
/// `value[start:stop:step]`; None stands for a missing bound.
Value slice_of(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step);

}  // namespace rondo::jinja
