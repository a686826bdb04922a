#include "model/text/jinja/parser.hpp"

#include <algorithm>

#include "config/limits.hpp"
#include "model/text/jinja/builtins.hpp"

namespace rondo::jinja {

namespace {

using Kind = Token::Kind;

bool is_reserved(std::string_view name) {
    static constexpr std::string_view words[] = {"true", "false", "True", "False", "none", "None", "and",
                                                 "or",   "not",   "if",   "else",  "elif", "in",   "is"};
    return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > limits::template_depth_max)
        parser_.refuse("nests deeper than " + std::to_string(limits::template_depth_max), ErrorCode::out_of_range);
}

void Parser::refuse(std::string message, ErrorCode code) const {
    fail(std::move(message), code, current().line);
}

void Parser::unexpected(std::string_view wanted) const {
    const Token& token = current();
    std::string found = token.kind == Kind::end          ? "the end of the template"
                        : token.kind == Kind::tag_end    ? "'%}'"
                        : token.kind == Kind::output_end ? "'}}'"
                                                         : "'" + token.text.substr(0, 40) + "'";
    std::replace(found.begin(), found.end(), '\n', ' ');
    refuse("expected " + std::string(wanted) + ", found " + found);
}

/// Of a call or a macro: each is compared with all the others.
void Parser::check_count(size_t count, std::string_view what) const {
    constexpr size_t count_max = 255;
    if (count > count_max)
        refuse("has more than " + std::to_string(count_max) + " " + std::string(what) + " in one place",
               ErrorCode::out_of_range);
}

Token Parser::next() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
}

bool Parser::skip_name(std::string_view name) {
    if (!current().is_name(name)) return false;
    next();
    return true;
}

bool Parser::skip_sign(std::string_view sign) {
    if (!current().is_sign(sign)) return false;
    next();
    return true;
}

void Parser::expect(Kind kind, std::string_view text) {
    if (current().kind != kind || (kind == Kind::sign && current().text != text)) unexpected(text);
    next();
}

Block Parser::parse() {
    Block block = parse_block({});
    check_calls();
    return block;
}

/// `safe` turns text into markup, which from then on escapes what it is joined to; harmless only as the last thing
/// done.
void Parser::check_safe(size_t allowed) const {
    if (safe_filters_ > allowed)
        refuse("filter 'safe' is supported only at the end of an output", ErrorCode::unsupported);
}

void Parser::end_tag() {
    check_safe(0);
    expect(Kind::tag_end, "'%}'");
}

void Parser::check_calls() const {
    for (const auto& [name, line] : called_)
        if (!find_function(name) && !assigned_.contains(name))
            fail("function '" + name + "' is not supported", ErrorCode::unsupported, line);
}

/// Statements up to a tag named in `ends`, which is left as the current token; up to the end of the template without
/// any.
Block Parser::parse_block(std::initializer_list<std::string_view> ends) {
    Nesting nesting(*this);
    Block block;
    while (current().kind != Kind::end) {
        if (current().kind == Kind::data) {
            Token data = next();
            block.push_back({data.line, node::Data{std::move(data.text)}});
        } else if (current().kind == Kind::output_begin) {
            block.push_back(parse_output());
        } else {
            next();
            if (current().kind == Kind::name && is_any(current().text, ends)) return block;
            block.push_back(parse_statement());
            end_tag();
        }
    }
    if (ends.size() > 0) unexpected("{% " + std::string(*(ends.end() - 1)) + " %}");
    return block;
}

/// The end of a tag and the statements it holds.
Block Parser::parse_body(std::initializer_list<std::string_view> ends) {
    skip_sign(":");
    end_tag();
    return parse_block(ends);
}

Statement Parser::parse_output() {
    const int line = next().line;
    ExpressionPtr value = parse_tuple(true);
    const auto* apply = std::get_if<node::Apply>(&value->node);
    check_safe(apply && apply->builtin->name == "safe" ? 1 : 0);
    safe_filters_ = 0;
    expect(Kind::output_end, "'}}'");
    return {line, node::Output{std::move(value)}};
}

Statement Parser::parse_statement() {
    if (current().kind != Kind::name) unexpected("the name of a tag");
    const int line = current().line;
    const std::string tag = current().text;
    if (!is_any(tag, {"if", "for", "set", "filter", "macro", "generation", "break", "continue"}))
        refuse("tag '" + tag + "' is not supported", ErrorCode::unsupported);
    next();
    if (tag == "if") return parse_if(line);
    if (tag == "for") return parse_for(line);
    if (tag == "set") return parse_set(line);
    if (tag == "filter") return parse_filter_block(line);
    if (tag == "macro") return parse_macro(line);
    if (tag == "generation") {
        const size_t loops = std::exchange(loops_, 0);
        Block body = parse_body({"endgeneration"});
        next();
        loops_ = loops;
        return {line, node::Generation{std::move(body)}};
    }
    if (loops_ == 0) refuse("'" + tag + "' stands outside of a loop");
    if (tag == "break") return {line, node::Break{}};
    return {line, node::Continue{}};
}

Statement Parser::parse_if(int line) {
    node::If node;
    while (true) {
        ExpressionPtr test = parse_tuple(false);
        Block body = parse_body({"elif", "else", "endif"});
        node.branches.emplace_back(std::move(test), std::move(body));
        const std::string tag = next().text;
        if (tag == "elif") continue;
        if (tag == "else") {
            node.otherwise = parse_body({"endif"});
            next();
        }
        return {line, std::move(node)};
    }
}

std::string Parser::parse_target_name() {
    if (current().kind != Kind::name || is_reserved(current().text)) unexpected("a name to assign to");
    std::string name = next().text;
    assigned_.insert(name);
    return name;
}

Target Parser::parse_target(bool allows_attribute) {
    Target target;
    if (allows_attribute && current().kind == Kind::name && ahead().is_sign(".")) {
        target.names.push_back(next().text);
        next();
        if (current().kind != Kind::name) unexpected("the name of an attribute");
        target.attribute = next().text;
        return target;
    }
    const bool in_parentheses = skip_sign("(");
    while (true) {
        if (current().is_sign("(")) refuse("nested unpacking is not supported", ErrorCode::unsupported);
        target.names.push_back(parse_target_name());
        if (!skip_sign(",")) break;
        target.unpacks = true;
        if (current().kind != Kind::name || current().is_name("in")) break;
    }
    if (in_parentheses) {
        expect(Kind::sign, ")");
        if (current().is_sign(",")) refuse("nested unpacking is not supported", ErrorCode::unsupported);
    }
    return target;
}

Statement Parser::parse_for(int line) {
    node::For node;
    node.target = parse_target(false);
    if (std::count(node.target.names.begin(), node.target.names.end(), "loop") > 0)
        refuse("a loop cannot assign to 'loop'");
    if (!skip_name("in")) unexpected("'in'");
    node.items = parse_tuple(false);
    if (skip_name("if")) node.filter = parse_expression();
    if (current().is_name("recursive")) refuse("recursive loops are not supported", ErrorCode::unsupported);
    ++loops_;
    node.body = parse_body({"else", "endfor"});
    --loops_;
    if (next().text == "else") {
        node.otherwise = parse_body({"endfor"});
        next();
    }
    return {line, std::move(node)};
}

Statement Parser::parse_set(int line) {
    Target target = parse_target(true);
    if (skip_sign("=")) return {line, node::Set{std::move(target), parse_tuple(true)}};
    node::SetBlock node{std::move(target), nullptr, {}};
    while (skip_sign("|")) node.filter = parse_filter(std::move(node.filter));
    const size_t loops = std::exchange(loops_, 0);
    node.body = parse_body({"endset"});
    next();
    loops_ = loops;
    return {line, std::move(node)};
}

Statement Parser::parse_filter_block(int line) {
    node::FilterBlock node;
    do {
        node.filter = parse_filter(std::move(node.filter));
    } while (skip_sign("|"));
    const size_t loops = std::exchange(loops_, 0);
    node.body = parse_body({"endfilter"});
    next();
    loops_ = loops;
    return {line, std::move(node)};
}

Statement Parser::parse_macro(int line) {
    node::Macro node;
    node.name = parse_target_name();
    expect(Kind::sign, "(");
    while (!current().is_sign(")")) {
        if (!node.parameters.empty()) expect(Kind::sign, ",");
        node.parameters.push_back(parse_target_name());
        check_count(node.parameters.size(), "parameters");
        if (skip_sign("="))
            node.defaults.push_back(parse_expression());
        else if (!node.defaults.empty())
            refuse("a parameter without a default follows one with a default");
    }
    next();
    const size_t loops = std::exchange(loops_, 0);
    ++macros_;
    node.body = parse_body({"endmacro"});
    next();
    --macros_;
    loops_ = loops;
    return {line, std::move(node)};
}

}  // namespace rondo::jinja
