#include "model/format/answer_format.hpp"

#include <algorithm>
#include <utility>

#include "model/files/strict_json.hpp"
#include "model/format/free_text.hpp"
#include "model/format/json_schema.hpp"
#include "model/format/schema_fields.hpp"
#include "model/text/thoughts.hpp"

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

constexpr int64_t line_breaks_max = 4;  // beside a thought's tags

}  // namespace

std::shared_ptr<const AnswerFormat> AnswerFormat::built_by(const std::function<int32_t(ByteGrammar&)>& build) {
    std::shared_ptr<AnswerFormat> made(new AnswerFormat());
    ByteGrammar& grammar = *made->grammar_;
    grammar.define(made->answer_, build(grammar));
    if (grammar.is_full()) return nullptr;
    grammar.finish();
    return made;
}

std::shared_ptr<const AnswerFormat> AnswerFormat::json_object() {
    static const std::shared_ptr<const AnswerFormat> only =
        built_by([](ByteGrammar& grammar) { return grammar.call(JsonParts(grammar).object(), ByteGrammar::end); });
    return only;
}

int32_t AnswerFormat::put_into(ByteGrammar& grammar, int32_t next) const {
    return grammar.call(grammar.copy(*grammar_, answer_), next);
}

bool AnswerFormat::is_empty() const {
    return grammar_->is_empty(answer_);
}

Result<std::shared_ptr<const AnswerFormat>> AnswerFormat::json_schema(std::string_view schema,
                                                                      const std::string& where) {
    constexpr JsonBounds bounds{.bytes_max = limits::schema_bytes_max, .values_max = limits::schema_values_max};
    RONDO_TRY(parse_json(schema, where, bounds));
    const auto ordered = nlohmann::ordered_json::parse(schema);  // the same with its members in their order
    Status kept;
    auto made = built_by([&](ByteGrammar& grammar) {
        JsonParts parts(grammar);
        const Result<ByteGrammar::Rule> rule = rule_of_schema(ordered, where, grammar, parts);
        if (!rule) kept = rule.error();
        return rule ? grammar.call(*rule, ByteGrammar::end) : ByteGrammar::never;
    });
    RONDO_TRY(kept);
    if (made == nullptr) return schema_too_large(where);
    if (made->is_empty()) return wrong_schema(where, "", "of a value; there is none of it");
    return made;
}

AnswerFormat::AnswerFormat() : grammar_(std::make_unique<ByteGrammar>()), answer_(grammar_->rule()) {
    const auto line_break = [&](Node next) { return grammar_->text("\n", next); };
    const Node answer = grammar_->call(answer_, ByteGrammar::end);
    // What is thought may be anything up to the tag that ends it.
    const Node within = free_text(*grammar_, Thoughts::end_tag, ByteGrammar::end, false,
                                  grammar_->times(0, line_breaks_max, line_break, answer));
    const Node tag = grammar_->text(Thoughts::begin_tag, within);
    const Node maybe = grammar_->either(answer, grammar_->times(0, line_breaks_max, line_break, tag));
    const auto spaced = [&](Node node) { return grammar_->either(grammar_->text(" ", node), node); };
    const Node nodes[2][3] = {{answer, maybe, within}, {spaced(answer), spaced(maybe), within}};
    std::copy(&nodes[0][0], &nodes[0][0] + 6, &begins_[0][0]);
}

AnswerFormat::~AnswerFormat() = default;

}  // namespace rondo
