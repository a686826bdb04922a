#include "model/format/json_parts.hpp"

#include <algorithm>

#include "model/text/unicode.hpp"

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

constexpr int64_t indent_max = 32;       // spaces or tabs behind a line break
constexpr int64_t side_digits_max = 15;  // of a number, on each side of its point

/// Characters that a string may have as they are.
Characters plain() {
    return Characters::all() & ~(Characters({{0, 0x1F}}) | Characters::one('"') | Characters::one('\\'));
}

Node digits(ByteGrammar& grammar, int64_t least, int64_t most, Node next) {
    return grammar.times(
        least, most, [&](Node then) { return grammar.bytes('0', '9', then); }, next);
}

Node hex(ByteGrammar& grammar, int64_t count, Node next) {
    const auto digit = [&](Node then) {
        return grammar.either(grammar.bytes('0', '9', then),
                              grammar.either(grammar.bytes('a', 'f', then), grammar.bytes('A', 'F', then)));
    };
    return grammar.times(count, count, digit, next);
}

/// What stands behind a backslash: a character of UTF-16 is one or both halves of a pair. Programs escape only what
/// must be.
Node escaped(ByteGrammar& grammar, JsonSpelling spelling, Node next) {
    if (spelling != JsonSpelling::people) return grammar.any_of("\"\\bfnrt", next);
    const Node low = grammar.text("\\u", grammar.any_of("dD", grammar.any_of("cdefCDEF", hex(grammar, 2, next))));
    const Node from_d =
        grammar.either(grammar.bytes('0', '7', hex(grammar, 2, next)), grammar.any_of("89abAB", hex(grammar, 2, low)));
    const Node three = hex(grammar, 3, next);
    const Node other = grammar.either(grammar.bytes('0', '9', three), grammar.any_of("abcefABCEF", three));
    const Node code = grammar.text("u", grammar.either(grammar.any_of("dD", from_d), other));
    return grammar.either(grammar.any_of("\"\\/bfnrt", next), code);
}

std::u32string characters_of(const std::string& text) {
    std::u32string characters;
    for (size_t at = 0; at < text.size();) {
        const unicode::Decoded decoded = unicode::decode(text, at);
        characters += decoded.value;
        at += decoded.bytes;
    }
    return characters;
}

}  // namespace

std::string json_written(const nlohmann::ordered_json& value, JsonSpelling spelling) {
    if (spelling != JsonSpelling::spaced || !value.is_structured()) return value.dump();
    std::string text(1, value.is_object() ? '{' : '[');
    for (const auto& [name, item] : value.items()) {
        if (text.size() > 1) text += ", ";
        if (value.is_object()) text += nlohmann::json(name).dump() + ": ";
        text += json_written(item, spelling);
    }
    return text += value.is_object() ? '}' : ']';
}

JsonParts::JsonParts(ByteGrammar& grammar, JsonSpelling spelling)
    : grammar_(&grammar),
      spelling_(spelling),
      gap_(grammar.rule()),
      behind_(grammar.rule()),
      value_(grammar.rule()),
      object_(grammar.rule()),
      array_(grammar.rule()),
      number_(grammar.rule()),
      integer_(grammar.rule()),
      character_(grammar.rule()),
      characters_(grammar.rule()) {
    define_gaps();
    define_strings();
    define_numbers();
    define_values();
}

void JsonParts::define_gaps() {
    ByteGrammar& grammar = *grammar_;
    const Node space = grammar.text(" ", ByteGrammar::end);
    if (spelling_ != JsonSpelling::people) {
        grammar.define(gap_, ByteGrammar::end);
        return grammar.define(behind_, spelling_ == JsonSpelling::spaced ? space : ByteGrammar::end);
    }
    const auto blank = [&](Node next) { return grammar.any_of(" \t", next); };
    const Node line = grammar.text("\n", grammar.times(0, indent_max, blank, ByteGrammar::end));
    grammar.define(gap_, grammar.either(ByteGrammar::end, grammar.either(space, line)));
    grammar.define(behind_, grammar.call(gap_, ByteGrammar::end));
}

void JsonParts::define_strings() {
    ByteGrammar& grammar = *grammar_;
    const Node escape = grammar.text("\\", escaped(grammar, spelling_, ByteGrammar::end));
    grammar.define(character_, grammar.either(plain().utf8(grammar, ByteGrammar::end), escape));
    const auto one = [&](Node next) { return grammar.call(character_, next); };
    grammar.define(characters_, grammar.times(0, -1, one, grammar.text("\"", ByteGrammar::end)));
}

void JsonParts::define_numbers() {
    ByteGrammar& grammar = *grammar_;
    const auto whole = [&](Node next) {
        const Node large = grammar.bytes('1', '9', digits(grammar, 0, side_digits_max - 1, next));
        return grammar.either(grammar.text("0", next), large);
    };
    const Node power = digits(grammar, 1, 2, ByteGrammar::end);
    const Node exponent =
        grammar.any_of("eE", grammar.maybe([&](Node next) { return grammar.any_of("+-", next); }, power));
    const Node behind = grammar.either(ByteGrammar::end, exponent);
    const Node fraction = grammar.text(".", digits(grammar, 1, side_digits_max, behind));
    const Node number = whole(grammar.either(fraction, behind));
    grammar.define(number_, grammar.either(grammar.text("-", number), number));
    const Node negative =
        grammar.text("-", grammar.bytes('1', '9', digits(grammar, 0, side_digits_max - 1, ByteGrammar::end)));
    grammar.define(integer_, grammar.either(whole(ByteGrammar::end), negative));
}

void JsonParts::define_values() {
    ByteGrammar& grammar = *grammar_;
    const auto list = [&](char open, char close_with, const ByteGrammar::MakePart& item) {
        const char brackets[] = {open, close_with};
        const auto more = [&](Node next) { return comma(item(next)); };
        const Node filled = item(grammar.times(0, -1, more, close(close_with, ByteGrammar::end)));
        const Node empty = grammar.text({brackets + 1, 1}, ByteGrammar::end);
        return grammar.text({brackets, 1}, gap(grammar.either(empty, filled)));
    };
    const auto value = [&](Node next) { return grammar.call(value_, next); };
    const auto member = [&](Node next) { return other_name({}, value(next)); };
    grammar.define(object_, list('{', '}', member));
    grammar.define(array_, list('[', ']', value));
    Node any = grammar.texts({"true", "false", "null"}, ByteGrammar::end);
    any = grammar.either(any, grammar.call(number_, ByteGrammar::end));
    any = grammar.either(any, string(0, -1, ByteGrammar::end));
    any = grammar.either(any, grammar.call(array_, ByteGrammar::end));
    grammar.define(value_, grammar.either(any, grammar.call(object_, ByteGrammar::end)));
}

Node JsonParts::string(int64_t least, int64_t most, Node next) {
    const auto one = [&](Node then) { return grammar_->call(character_, then); };
    if (most >= 0) return grammar_->text("\"", grammar_->times(least, most, one, grammar_->text("\"", next)));
    return grammar_->text("\"", grammar_->times(least, least, one, grammar_->call(characters_, next)));
}

Node JsonParts::in_string(const Characters& characters, Node next) {
    Node all = (characters & plain()).utf8(*grammar_, next);
    for (char32_t each = 0; each < 0x80; ++each) {
        if (!characters.has(each) || plain().has(each)) continue;
        const std::string spelled = nlohmann::json(std::string(1, static_cast<char>(each))).dump();
        all = grammar_->either(grammar_->text(std::string_view(spelled).substr(1, spelled.size() - 2), next), all);
    }
    return all;
}

Node JsonParts::name(const std::string& name, Node next) {
    return grammar_->text(nlohmann::json(name).dump(), colon(next));
}

Node JsonParts::other_name(const std::vector<std::string>& names, Node next) {
    const Node behind = colon(next);
    if (names.empty()) return string(0, -1, behind);
    std::vector<std::u32string> sorted;
    for (const std::string& name : names) sorted.push_back(characters_of(name));
    std::ranges::sort(sorted);
    return grammar_->text("\"", unlike(sorted, 0, behind));
}

/// The rest of a name, behind `at` characters that all of these names begin with. Before it differs from them it has no
/// escape, so that none of them is spelled in another way.
Node JsonParts::unlike(std::span<const std::u32string> sorted, size_t at, Node next) {
    Characters others = plain();
    Node all = ByteGrammar::never;
    if (sorted.front().size() == at) {
        sorted = sorted.subspan(1);
    } else {
        all = grammar_->text("\"", next);
    }
    while (!sorted.empty()) {
        const char32_t character = sorted.front()[at];
        const auto group = std::ranges::find_if(sorted, [&](const auto& name) { return name[at] != character; });
        const auto count = static_cast<size_t>(group - sorted.begin());
        const Characters one = Characters::one(character) & plain();
        all = grammar_->either(one.utf8(*grammar_, unlike(sorted.first(count), at + 1, next)), all);
        others = others & ~one;
        sorted = sorted.subspan(count);
    }
    return grammar_->either(others.utf8(*grammar_, grammar_->call(characters_, next)), all);
}

}  // namespace rondo
