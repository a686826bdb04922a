#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/text/jinja/value.hpp"

/// The tree of a parsed template. Immutable once built, shared by all renderings; its depth is bounded by the parser.
namespace rondo::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
struct Statement;
using Block = std::vector<Statement>;

/// A positional argument has no name.
struct Argument {
    std::string name;
    ExpressionPtr value;
};

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };

namespace node {

struct Literal {
    Value value;
};
struct Name {
    std::string name;
};
struct Items {
    bool is_tuple;
    std::vector<ExpressionPtr> items;
};
struct Entries {
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Sign {
    bool negative;
    ExpressionPtr operand;
};
struct Not {
    ExpressionPtr operand;
};
struct Logic {
    bool is_and;
    ExpressionPtr left, right;
};
struct Binary {
    Operator op;
    ExpressionPtr left, right;
};
/// A chain: a < b <= c.
struct Compare {
    ExpressionPtr first;
    std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Concat {
    std::vector<ExpressionPtr> parts;
};
/// `yes if test else no`; without `no` the value is undefined.
struct Conditional {
    ExpressionPtr test, yes, no;
};
struct Attribute {
    ExpressionPtr object;
    std::string name;
};
struct Subscript {
    ExpressionPtr object, index;
};
/// Absent bounds are null.
struct Slice {
    ExpressionPtr object, start, stop, step;
};
/// A filter or a test, resolved by name already. The object of the first filter of a block set is null: it is the
/// block's text.
struct Apply {
    const Builtin* builtin;
    ExpressionPtr object;
    std::vector<Argument> arguments;
};
struct Call {
    ExpressionPtr callee;
    std::vector<Argument> arguments;
};

}  // namespace node

struct Expression {
    int line;
    size_t depth;
    std::variant<node::Literal, node::Name, node::Items, node::Entries, node::Sign, node::Not, node::Logic,
                 node::Binary, node::Compare, node::Concat, node::Conditional, node::Attribute, node::Subscript,
                 node::Slice, node::Apply, node::Call>
        node;
};

/// What `set` and `for` assign to: names (unpacked when `unpacks`), or one attribute of a namespace.
struct Target {
    std::vector<std::string> names;
    bool unpacks = false;
    std::string attribute;
};

namespace node {

struct Data {
    std::string text;
};
struct Output {
    ExpressionPtr value;
};
struct If {
    std::vector<std::pair<ExpressionPtr, Block>> branches;
    Block otherwise;
};
struct For {
    Target target;
    ExpressionPtr items, filter;  ///< filter may be null
    Block body, otherwise;
};
struct Set {
    Target target;
    ExpressionPtr value;
};
struct SetBlock {
    Target target;
    ExpressionPtr filter;  ///< may be null
    Block body;
};
struct FilterBlock {
    ExpressionPtr filter;
    Block body;
};
struct Macro {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<ExpressionPtr> defaults;  ///< of the last parameters
    Block body;
};
/// `{% generation %}`: marks text for training, transparent here.
struct Generation {
    Block body;
};
struct Break {};
struct Continue {};

}  // namespace node

struct Statement {
    int line;
    std::variant<node::Data, node::Output, node::If, node::For, node::Set, node::SetBlock, node::FilterBlock,
                 node::Macro, node::Generation, node::Break, node::Continue>
        node;
};

}  // namespace rondo::jinja
