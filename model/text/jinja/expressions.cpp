#include <algorithm>
#include <charconv>

#include "config/limits.hpp"
#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/parser.hpp"

namespace rondo::jinja {

namespace {

using Kind = Token::Kind;

template <class Op, size_t count>
const Op* find_sign(const Token& token, const std::pair<std::string_view, Op> (&table)[count]) {
    if (token.kind != Kind::sign) return nullptr;
    const auto* found = std::find_if(table, table + count, [&](const auto& row) { return row.first == token.text; });
    return found == table + count ? nullptr : &found->second;
}

}  // namespace

ExpressionPtr Parser::parse_tuple(bool allows_conditional, bool in_parentheses) {
    const int line = current().line;
    std::vector<ExpressionPtr> items;
    bool is_tuple = false;
    auto at_end = [&] {
        return current().kind == Kind::output_end || current().kind == Kind::tag_end || current().is_sign(")");
    };
    while (!at_end()) {
        items.push_back(allows_conditional ? parse_expression() : parse_or());
        if (!skip_sign(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (!is_tuple && !in_parentheses) unexpected("an expression");
    const size_t depth = depth_of(items);
    return make(line, depth, node::Items{true, std::move(items)});
}

ExpressionPtr Parser::parse_expression() {
    Nesting nesting(*this);
    ExpressionPtr value = parse_or();
    while (current().is_name("if")) {
        const int line = next().line;
        ExpressionPtr test = parse_or();
        ExpressionPtr no = skip_name("else") ? parse_expression() : nullptr;
        const size_t depth = std::max({depth_of(value), depth_of(test), depth_of(no)});
        value = make(line, depth, node::Conditional{std::move(test), std::move(value), std::move(no)});
    }
    return value;
}

ExpressionPtr Parser::parse_or() {
    ExpressionPtr left = parse_and();
    while (current().is_name("or")) {
        const int line = next().line;
        ExpressionPtr right = parse_and();
        const size_t depth = std::max(left->depth, right->depth);
        left = make(line, depth, node::Logic{false, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::parse_and() {
    ExpressionPtr left = parse_not();
    while (current().is_name("and")) {
        const int line = next().line;
        ExpressionPtr right = parse_not();
        const size_t depth = std::max(left->depth, right->depth);
        left = make(line, depth, node::Logic{true, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::parse_not() {
    if (!current().is_name("not")) return parse_compare();
    Nesting nesting(*this);
    const int line = next().line;
    ExpressionPtr operand = parse_not();
    const size_t depth = operand->depth;
    return make(line, depth, node::Not{std::move(operand)});
}

ExpressionPtr Parser::parse_compare() {
    static constexpr std::pair<std::string_view, Comparison> signs[] = {
        {"==", Comparison::equal},      {"!=", Comparison::not_equal}, {"<", Comparison::less},
        {"<=", Comparison::less_equal}, {">", Comparison::greater},    {">=", Comparison::greater_equal}};
    ExpressionPtr first = parse_sum();
    const int line = current().line;
    size_t depth = first->depth;
    std::vector<std::pair<Comparison, ExpressionPtr>> rest;
    while (true) {
        Comparison op;
        if (const Comparison* sign = find_sign(current(), signs))
            op = *sign;
        else if (current().is_name("in"))
            op = Comparison::in;
        else if (current().is_name("not") && ahead().is_name("in"))
            op = Comparison::not_in;
        else
            break;
        next();
        if (op == Comparison::not_in) next();
        rest.emplace_back(op, parse_sum());
        depth = std::max(depth, rest.back().second->depth);
    }
    if (rest.empty()) return first;
    return make(line, depth, node::Compare{std::move(first), std::move(rest)});
}

ExpressionPtr Parser::parse_sum() {
    ExpressionPtr left = parse_concat();
    while (current().is_sign("+") || current().is_sign("-")) {
        const Token sign = next();
        ExpressionPtr right = parse_concat();
        const size_t depth = std::max(left->depth, right->depth);
        const Operator op = sign.text == "+" ? Operator::add : Operator::subtract;
        left = make(sign.line, depth, node::Binary{op, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::parse_concat() {
    const int line = current().line;
    std::vector<ExpressionPtr> parts;
    do parts.push_back(parse_product());
    while (skip_sign("~"));
    if (parts.size() == 1) return std::move(parts.front());
    const size_t depth = depth_of(parts);
    return make(line, depth, node::Concat{std::move(parts)});
}

ExpressionPtr Parser::parse_product() {
    static constexpr std::pair<std::string_view, Operator> signs[] = {
        {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
    ExpressionPtr left = parse_power();
    while (const Operator* op = find_sign(current(), signs)) {
        const int line = next().line;
        ExpressionPtr right = parse_power();
        const size_t depth = std::max(left->depth, right->depth);
        left = make(line, depth, node::Binary{*op, std::move(left), std::move(right)});
    }
    return left;
}

/// Unlike Python's, Jinja's power groups from the left and binds looser than a sign.
ExpressionPtr Parser::parse_power() {
    ExpressionPtr left = parse_unary();
    while (current().is_sign("**")) {
        const int line = next().line;
        ExpressionPtr right = parse_unary();
        const size_t depth = std::max(left->depth, right->depth);
        left = make(line, depth, node::Binary{Operator::power, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
    ExpressionPtr value;
    if (current().is_sign("-") || current().is_sign("+")) {
        Nesting nesting(*this);
        const Token sign = next();
        value = parse_unary(false);
        const size_t depth = value->depth;
        value = make(sign.line, depth, node::Sign{sign.text == "-", std::move(value)});
    } else {
        value = parse_primary();
    }
    value = parse_postfix(std::move(value));
    return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::parse_primary() {
    const Token& token = current();
    switch (token.kind) {
        case Kind::name:
            return parse_name();
        case Kind::text: {
            const int line = token.line;
            std::string text;
            while (current().kind == Kind::text) text += next().text;
            return make(line, 0, node::Literal{std::make_shared<const std::string>(std::move(text))});
        }
        case Kind::integer: {
            int64_t value = 0;
            if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec != std::errc{})
                refuse("an integer does not fit 64 bits", ErrorCode::out_of_range);
            return make(next().line, 0, node::Literal{value});
        }
        case Kind::number: {
            double value = 0;
            if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec != std::errc{})
                refuse("a number does not fit a float", ErrorCode::out_of_range);
            return make(next().line, 0, node::Literal{value});
        }
        default:
            break;
    }
    if (token.is_sign("[")) return parse_list();
    if (token.is_sign("{")) return parse_dict();
    if (!skip_sign("(")) unexpected("an expression");
    ExpressionPtr value = parse_tuple(true, true);
    expect(Kind::sign, ")");
    return value;
}

ExpressionPtr Parser::parse_name() {
    const std::string_view name = current().text;
    const int line = current().line;
    if (name == "true" || name == "True" || name == "false" || name == "False")
        return make(line, 0, node::Literal{next().text.size() == 4});
    if (name == "none" || name == "None") {
        next();
        return make(line, 0, node::Literal{nullptr});
    }
    for (std::string_view word : {"and", "or", "not", "if", "else", "elif", "in", "is"})
        if (name == word) unexpected("an expression");
    if (macros_ > 0 && (name == "caller" || name == "varargs" || name == "kwargs"))
        refuse("'" + std::string(name) + "' of a macro is not supported", ErrorCode::unsupported);
    return make(line, 0, node::Name{next().text});
}

ExpressionPtr Parser::parse_list() {
    const int line = next().line;
    std::vector<ExpressionPtr> items;
    while (!current().is_sign("]")) {
        items.push_back(parse_expression());
        if (!skip_sign(",")) break;
    }
    expect(Kind::sign, "]");
    const size_t depth = depth_of(items);
    return make(line, depth, node::Items{false, std::move(items)});
}

ExpressionPtr Parser::parse_dict() {
    const int line = next().line;
    size_t depth = 0;
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
    while (!current().is_sign("}")) {
        ExpressionPtr key = parse_expression();
        expect(Kind::sign, ":");
        ExpressionPtr value = parse_expression();
        depth = std::max({depth, key->depth, value->depth});
        entries.emplace_back(std::move(key), std::move(value));
        if (!skip_sign(",")) break;
    }
    expect(Kind::sign, "}");
    return make(line, depth, node::Entries{std::move(entries)});
}

}  // namespace rondo::jinja
