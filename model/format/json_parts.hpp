#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "model/format/byte_grammar.hpp"
#include "model/format/characters.hpp"

namespace rondo {

/// How JSON is written. White space stands only where people put it, and little of it: a model that may write any
/// number of spaces may write nothing else. Or it is just as a program writes it: a space behind each comma and colon
/// (Python), or none at all; such a text is the same when it has been read and written again, numbers aside.
enum class JsonSpelling : uint8_t { people, spaced, compact };

/// A value as a program writes it with this spelling; for `people` with no white space.
std::string json_written(const nlohmann::ordered_json& value, JsonSpelling spelling);

/// JSON's own parts (RFC 8259) as rules of a grammar. Numbers have so many digits as a double holds.
class JsonParts {
public:
    using Node = ByteGrammar::Node;
    using Rule = ByteGrammar::Rule;

    explicit JsonParts(ByteGrammar& grammar, JsonSpelling spelling = JsonSpelling::people);

    JsonSpelling spelling() const { return spelling_; }
    /// Beside a bracket.
    Node gap(Node next) { return grammar_->call(gap_, next); }
    Node comma(Node next) { return grammar_->text(",", grammar_->call(behind_, next)); }
    Node colon(Node next) { return grammar_->text(":", grammar_->call(behind_, next)); }
    /// The end of a list or an object that holds something.
    Node close(char bracket, Node next) { return gap(grammar_->text({&bracket, 1}, next)); }
    /// A member's name, and what stands between it and its value.
    Node name(const std::string& name, Node next);
    /// A name that is none of these.
    Node other_name(const std::vector<std::string>& names, Node next);
    /// A string of so many characters; -1: of any number.
    Node string(int64_t least, int64_t most, Node next);
    /// One of these characters within a string.
    Node in_string(const Characters& characters, Node next);

    Rule value() const { return value_; }
    Rule object() const { return object_; }
    Rule array() const { return array_; }
    Rule number() const { return number_; }
    Rule integer() const { return integer_; }

private:
    void define_gaps();
    void define_strings();
    void define_numbers();
    void define_values();
    Node unlike(std::span<const std::u32string> sorted, size_t at, Node next);
    Node quoted(Node inner_rest) { return grammar_->text("\"", inner_rest); }

    ByteGrammar* grammar_;
    JsonSpelling spelling_;
    Rule gap_, behind_;  // what may stand beside a bracket; behind a comma or a colon
    Rule value_, object_, array_, number_, integer_;
    Rule character_, characters_;  // of a string; any number of them and the quote that ends it
};

}  // namespace rondo
