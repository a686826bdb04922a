#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/limits.hpp"
#include "model/text/jinja/ast.hpp"
#include "model/text/jinja/lexer.hpp"

namespace rondo::jinja {

/// A recursive descent parser with Jinja's own precedence. Every name that is fixed in the source (tags, filters,
/// tests, methods, functions and their arguments) is resolved here, so what is not supported is known before the first
/// rendering.
class Parser {
public:
    explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
    Block parse();

private:
    class Nesting;

    // Statements, in parser.cpp.
    Block parse_block(std::initializer_list<std::string_view> ends);
    Statement parse_statement();
    Statement parse_if(int line);
    Statement parse_for(int line);
    Statement parse_set(int line);
    Statement parse_filter_block(int line);
    Statement parse_macro(int line);
    Target parse_target(bool allows_attribute);
    std::string parse_target_name();
    Statement parse_output();
    Block parse_body(std::initializer_list<std::string_view> ends);
    void end_tag();
    void check_safe(size_t allowed) const;
    void check_calls() const;

    // Expressions, in expressions.cpp and postfix.cpp, from the loosest binding to the tightest.
    ExpressionPtr parse_tuple(bool allows_conditional, bool in_parentheses = false);
    ExpressionPtr parse_expression();
    ExpressionPtr parse_or();
    ExpressionPtr parse_and();
    ExpressionPtr parse_not();
    ExpressionPtr parse_compare();
    ExpressionPtr parse_sum();
    ExpressionPtr parse_concat();
    ExpressionPtr parse_product();
    ExpressionPtr parse_power();
    ExpressionPtr parse_unary(bool with_filters = true);
    ExpressionPtr parse_postfix(ExpressionPtr value);
    ExpressionPtr parse_filters(ExpressionPtr value);
    ExpressionPtr parse_filter(ExpressionPtr value);
    ExpressionPtr parse_test(ExpressionPtr value);
    ExpressionPtr parse_subscript(ExpressionPtr value);
    ExpressionPtr parse_call(ExpressionPtr callee);
    std::vector<Argument> parse_arguments();
    ExpressionPtr parse_primary();
    ExpressionPtr parse_name();
    ExpressionPtr parse_list();
    ExpressionPtr parse_dict();
    void check(const Builtin& builtin, const std::vector<Argument>& arguments, int line) const;

    const Token& current() const { return tokens_[at_]; }
    const Token& ahead(size_t count = 1) const { return tokens_[std::min(at_ + count, tokens_.size() - 1)]; }
    Token next();
    bool skip_name(std::string_view name);
    bool skip_sign(std::string_view sign);
    void expect(Token::Kind kind, std::string_view text);
    [[noreturn]] void refuse(std::string message, ErrorCode code = ErrorCode::invalid_argument) const;
    [[noreturn]] void unexpected(std::string_view wanted) const;
    void check_count(size_t count, std::string_view what) const;

    std::vector<Token> tokens_;
    size_t at_ = 0;
    size_t depth_ = 0;
    size_t loops_ = 0;   ///< around the current statement, within its macro
    size_t macros_ = 0;  ///< around the current statement
    std::set<std::string, std::less<>> assigned_;
    std::vector<std::pair<std::string, int>> called_;  ///< names called as functions, and the line
    size_t safe_filters_ = 0;                          ///< in the current tag
};

inline size_t depth_of(const ExpressionPtr& expression) {
    return expression ? expression->depth : 0;
}

inline size_t depth_of(const std::vector<ExpressionPtr>& expressions) {
    size_t depth = 0;
    for (const auto& expression : expressions) depth = std::max(depth, depth_of(expression));
    return depth;
}

inline size_t depth_of(const std::vector<Argument>& arguments) {
    size_t depth = 0;
    for (const auto& argument : arguments) depth = std::max(depth, depth_of(argument.value));
    return depth;
}

/// Long chains lean to the left without nesting the parser, so depth is counted on the tree as well.
template <class Node>
ExpressionPtr make(int line, size_t depth_below, Node node) {
    if (depth_below >= limits::template_depth_max)
        fail("has an expression of more than " + std::to_string(limits::template_depth_max) + " levels",
             ErrorCode::out_of_range, line);
    return std::make_unique<const Expression>(Expression{line, depth_below + 1, std::move(node)});
}

/// Counts a level of nesting for as long as it lives, and refuses one too many.
class Parser::Nesting {
public:
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;

private:
    Parser& parser_;
};

}  // namespace rondo::jinja
