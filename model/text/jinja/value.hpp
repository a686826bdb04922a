#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/result.hpp"

/// A small Jinja2 for chat templates, with the meaning that Python's Jinja has under Hugging Face's settings.
namespace rondo::jinja {

/// What stops parsing or rendering. Thrown only inside this interpreter: ChatTemplate turns it into an Error, so
/// nothing leaves its public functions. It keeps a tree-walking evaluator free of a check after every sub-expression.
struct Fault {
    ErrorCode code;
    std::string message;
    int line;  ///< 0 while rendering: the evaluator knows the line
};
[[noreturn]] void fail(std::string message, ErrorCode code = ErrorCode::invalid_argument, int line = 0);

struct Builtin;
struct Dict;
struct MacroClosure;
struct Method;
struct Namespace;
struct Sequence;
class Loop;

/// A name that stood for nothing. `name` points into the template or to a literal; both outlive every rendering.
struct Undefined {
    std::string_view name = "value";
};

using Text = std::shared_ptr<const std::string>;
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using MethodPtr = std::shared_ptr<const Method>;
using MacroPtr = std::shared_ptr<const MacroClosure>;

/// A Python value: small ones inline, the others shared and immutable. Strings are UTF-8, their characters code points.
/// Integers are 64 bits; what would not fit is a fault, never a wrong number.
class Value {
public:
    using Data = std::variant<Undefined, std::nullptr_t, bool, int64_t, double, Text, SequencePtr, DictPtr,
                              NamespacePtr, MethodPtr, MacroPtr, const Builtin*, Loop*>;
    Value() = default;
    template <class T>
    requires std::is_constructible_v<Data, T> Value(T value) : data_(std::move(value)) {}

    template <class T>
    const T* as() const {
        return std::get_if<T>(&data_);
    }
    template <class T>
    bool is() const {
        return std::holds_alternative<T>(data_);
    }
    const std::string* text() const { return is<Text>() ? as<Text>()->get() : nullptr; }
    const Sequence* sequence() const { return is<SequencePtr>() ? as<SequencePtr>()->get() : nullptr; }
    const Dict* dict() const { return is<DictPtr>() ? as<DictPtr>()->get() : nullptr; }
    std::optional<int64_t> integer() const;  ///< of an int or, as in Python, a bool
    std::optional<double> number() const;    ///< of an int, a bool or a float
    bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
    std::string_view type_name() const;  ///< Python's, for messages

private:
    Data data_;
};

/// Everything one can iterate over besides strings and dicts. The kinds differ in how they print, compare and index.
struct Sequence {
    enum class Kind { list, tuple, range, keys, values, items, lazy };
    Kind kind;
    size_t depth;  ///< of nesting; bounds every recursion over values, destruction included
    std::vector<Value> items;
    mutable bool used = false;  ///< a lazy sequence (of `map`, `select` …) is walked once; a second walk is a fault
};

struct Dict {
    size_t depth;
    std::vector<std::pair<Value, Value>> entries;  ///< in the order of insertion
};

/// The one mutable object. It never holds another one nor anything callable, so no cycle of ownership can arise.
struct Namespace {
    std::map<std::string, Value, std::less<>> attributes;
};

/// A method and what it was looked up on: `message.content.strip` before the call.
struct Method {
    const Builtin* builtin;
    Value self;
};

}  // namespace rondo::jinja
