#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/parser.hpp"

namespace rondo::jinja {

namespace {

using Kind = Token::Kind;

const std::string* literal_text(const std::vector<Argument>& arguments, size_t index) {
    if (index >= arguments.size() || !arguments[index].name.empty()) return nullptr;
    const auto* literal = std::get_if<node::Literal>(&arguments[index].value->node);
    return literal ? literal->value.text() : nullptr;
}

}  // namespace

/// Members, items and calls.
ExpressionPtr Parser::parse_postfix(ExpressionPtr value) {
    while (true) {
        if (current().is_sign(".") || current().is_sign("["))
            value = parse_subscript(std::move(value));
        else if (current().is_sign("("))
            value = parse_call(std::move(value));
        else
            return value;
    }
}

/// Filters and tests; unlike Python, Jinja lets a call follow them.
ExpressionPtr Parser::parse_filters(ExpressionPtr value) {
    while (true) {
        if (skip_sign("|"))
            value = parse_filter(std::move(value));
        else if (current().is_name("is"))
            value = parse_test(std::move(value));
        else if (current().is_sign("("))
            value = parse_call(std::move(value));
        else
            return value;
    }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr value) {
    const Token opener = next();
    if (opener.text == ".") {
        const size_t depth = value->depth;
        if (current().kind == Kind::integer) {
            ExpressionPtr index = parse_primary();
            return make(opener.line, depth, node::Subscript{std::move(value), std::move(index)});
        }
        if (current().kind != Kind::name) unexpected("a name or number after '.'");
        if (current().text.starts_with("__")) refuse("attribute '" + current().text + "' is not allowed");
        return make(opener.line, depth, node::Attribute{std::move(value), next().text});
    }
    ExpressionPtr bounds[3];
    size_t colons = 0;
    size_t depth = value->depth;
    while (!current().is_sign("]")) {
        if (colons < 2 && skip_sign(":")) {
            ++colons;
            continue;
        }
        if (bounds[colons]) unexpected("']'");
        bounds[colons] = parse_expression();
        depth = std::max(depth, bounds[colons]->depth);
    }
    next();
    auto& [first, second, third] = bounds;
    if (colons > 0)
        return make(opener.line, depth,
                    node::Slice{std::move(value), std::move(first), std::move(second), std::move(third)});
    if (!first) refuse("an empty subscript");
    return make(opener.line, depth, node::Subscript{std::move(value), std::move(first)});
}

std::vector<Argument> Parser::parse_arguments() {
    expect(Kind::sign, "(");
    std::vector<Argument> arguments;
    while (!current().is_sign(")")) {
        if (current().is_sign("*") || current().is_sign("**"))
            refuse("unpacking arguments with '" + current().text + "' is not supported", ErrorCode::unsupported);
        Argument argument;
        if (current().kind == Kind::name && ahead().is_sign("=")) {
            argument.name = next().text;
            next();
            for (const Argument& other : arguments)
                if (other.name == argument.name) refuse("argument '" + argument.name + "' is given twice");
        } else if (!arguments.empty() && !arguments.back().name.empty()) {
            refuse("a positional argument follows a named one");
        }
        argument.value = parse_expression();
        arguments.push_back(std::move(argument));
        check_count(arguments.size(), "arguments");
        if (!skip_sign(",")) break;
    }
    expect(Kind::sign, ")");
    return arguments;
}

void Parser::check(const Builtin& builtin, const std::vector<Argument>& arguments, int line) const {
    std::vector<std::string_view> names;
    for (const Argument& argument : arguments)
        if (!argument.name.empty()) names.push_back(argument.name);
    try {
        check_arguments(builtin, arguments.size() - names.size(), names);
    } catch (Fault& fault) {
        fault.line = line;
        throw;
    }
    // Filters that take the name of another one: it is known now unless it is computed.
    const bool by_attribute = builtin.name == "selectattr" || builtin.name == "rejectattr";
    const std::string* name = literal_text(arguments, by_attribute ? 1 : 0);
    if (!name) return;
    if (builtin.name == "map" && !find_filter(*name))
        fail("filter '" + *name + "' is not supported", ErrorCode::unsupported, line);
    if ((by_attribute || builtin.name == "select" || builtin.name == "reject") && !find_test(*name))
        fail("test '" + *name + "' is not supported", ErrorCode::unsupported, line);
}

ExpressionPtr Parser::parse_filter(ExpressionPtr value) {
    if (current().kind != Kind::name) unexpected("the name of a filter");
    const Token name = next();
    if (current().is_sign(".")) refuse("filters of modules are not supported", ErrorCode::unsupported);
    const Builtin* builtin = find_filter(name.text);
    if (!builtin) fail("filter '" + name.text + "' is not supported", ErrorCode::unsupported, name.line);
    std::vector<Argument> arguments;
    if (current().is_sign("(")) arguments = parse_arguments();
    check(*builtin, arguments, name.line);
    if (name.text == "safe") ++safe_filters_;
    const size_t depth = std::max(depth_of(value), depth_of(arguments));
    return make(name.line, depth, node::Apply{builtin, std::move(value), std::move(arguments)});
}

ExpressionPtr Parser::parse_test(ExpressionPtr value) {
    const int line = next().line;
    const bool negated = skip_name("not");
    if (current().kind != Kind::name) unexpected("the name of a test");
    const std::string name = next().text;
    const Builtin* builtin = find_test(name);
    if (!builtin) fail("test '" + name + "' is not supported", ErrorCode::unsupported, line);
    std::vector<Argument> arguments;
    const Token& token = current();
    const bool operand = token.kind == Kind::name || token.kind == Kind::text || token.kind == Kind::integer ||
                         token.kind == Kind::number || token.is_sign("[") || token.is_sign("{");
    if (token.is_sign("(")) {
        arguments = parse_arguments();
    } else if (operand && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
        if (token.is_name("is")) refuse("tests cannot be chained with 'is'");
        arguments.push_back({"", parse_postfix(parse_primary())});
    }
    check(*builtin, arguments, line);
    const size_t depth = std::max(depth_of(value), depth_of(arguments));
    ExpressionPtr test = make(line, depth, node::Apply{builtin, std::move(value), std::move(arguments)});
    return negated ? make(line, depth + 1, node::Not{std::move(test)}) : std::move(test);
}

ExpressionPtr Parser::parse_call(ExpressionPtr callee) {
    const int line = current().line;
    std::vector<Argument> arguments = parse_arguments();
    if (const auto* name = std::get_if<node::Name>(&callee->node)) {
        called_.emplace_back(name->name, line);
        if (const Builtin* function = find_function(name->name); function && !assigned_.contains(name->name))
            check(*function, arguments, line);
    } else if (const auto* attribute = std::get_if<node::Attribute>(&callee->node)) {
        if (!is_method_of_some_type(attribute->name))
            fail("method '" + attribute->name + "' is not supported", ErrorCode::unsupported, line);
    } else {
        fail("only functions, macros and methods can be called", ErrorCode::unsupported, line);
    }
    const size_t depth = std::max(callee->depth, depth_of(arguments));
    return make(line, depth, node::Call{std::move(callee), std::move(arguments)});
}

}  // namespace rondo::jinja
