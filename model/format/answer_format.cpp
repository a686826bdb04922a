#include "model/format/answer_format.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/files/strict_json.hpp"
#include "model/format/json_schema.hpp"
#include "model/format/schema_fields.hpp"
#include "model/text/thoughts.hpp"

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

constexpr int64_t line_breaks_max = 4;  // beside a thought's tags

/// Anything up to the tag that ends a thought, and that tag.
Node thought(ByteGrammar& grammar, Node next) {
    constexpr std::string_view tag = Thoughts::end_tag;
    constexpr auto first = static_cast<uint8_t>(tag[0]);  // stands nowhere else in the tag
    std::vector<ByteGrammar::Rule> behind;                // so many bytes of the tag
    for (size_t i = 0; i < tag.size(); ++i) behind.push_back(grammar.rule());
    const auto go_to = [&](size_t i) { return grammar.call(behind[i], ByteGrammar::end); };
    for (size_t i = 0; i < tag.size(); ++i) {
        const auto wanted = static_cast<uint8_t>(tag[i]);
        Node node = grammar.bytes(wanted, wanted, i + 1 < tag.size() ? go_to(i + 1) : ByteGrammar::end);
        if (i > 0) node = grammar.either(grammar.bytes(first, first, go_to(1)), node);
        uint8_t from = 0;
        for (const uint8_t told : {std::min(first, wanted), std::max(first, wanted)}) {
            if (told > from) node = grammar.either(grammar.bytes(from, told - 1, go_to(0)), node);
            from = static_cast<uint8_t>(told + 1);
        }
        grammar.define(behind[i], grammar.either(grammar.bytes(from, 0xFF, go_to(0)), node));
    }
    return grammar.call(behind[0], next);
}

}  // namespace

std::shared_ptr<const AnswerFormat> AnswerFormat::json_object() {
    static const std::shared_ptr<const AnswerFormat> only = [] {
        std::shared_ptr<AnswerFormat> made(new AnswerFormat());
        made->finish(JsonParts(*made->grammar_).object());
        return made;
    }();
    return only;
}

Result<std::shared_ptr<const AnswerFormat>> AnswerFormat::json_schema(std::string_view schema,
                                                                      const std::string& where) {
    constexpr JsonBounds bounds{.bytes_max = limits::schema_bytes_max, .values_max = limits::schema_values_max};
    RONDO_TRY(parse_json(schema, where, bounds));
    const auto ordered = nlohmann::ordered_json::parse(schema);  // the same with its members in their order
    std::shared_ptr<AnswerFormat> made(new AnswerFormat());
    JsonParts parts(*made->grammar_);
    RONDO_ASSIGN(const ByteGrammar::Rule rule, rule_of_schema(ordered, where, *made->grammar_, parts));
    made->finish(rule);
    if (made->grammar_->is_full()) return schema_too_large(where);
    if (made->grammar_->is_empty(rule)) return wrong_schema(where, "", "of a value; there is none of it");
    return std::shared_ptr<const AnswerFormat>(std::move(made));
}

AnswerFormat::AnswerFormat() : grammar_(std::make_unique<ByteGrammar>()), answer_(grammar_->rule()) {
    const auto line_break = [&](Node next) { return grammar_->text("\n", next); };
    const Node answer = grammar_->call(answer_, ByteGrammar::end);
    const Node within = thought(*grammar_, grammar_->times(0, line_breaks_max, line_break, answer));
    const Node tag = grammar_->text(Thoughts::begin_tag, within);
    const Node maybe = grammar_->either(answer, grammar_->times(0, line_breaks_max, line_break, tag));
    const auto spaced = [&](Node node) { return grammar_->either(grammar_->text(" ", node), node); };
    const Node nodes[2][3] = {{answer, maybe, within}, {spaced(answer), spaced(maybe), within}};
    std::copy(&nodes[0][0], &nodes[0][0] + 6, &begins_[0][0]);
}

AnswerFormat::~AnswerFormat() = default;

void AnswerFormat::finish(int32_t json) {
    grammar_->define(answer_, grammar_->call(json, ByteGrammar::end));
    grammar_->finish();
}

}  // namespace rondo
