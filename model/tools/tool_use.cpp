#include "model/tools/tool_use.hpp"

#include <utility>
#include <vector>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/strict_json.hpp"
#include "model/format/free_text.hpp"
#include "model/format/json_schema.hpp"
#include "model/text/chat_template.hpp"
#include "model/tools/call_style.hpp"
#include "model/tools/tool_list.hpp"

namespace rondo {

namespace {

using Json = nlohmann::ordered_json;
using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;

/// Where a schema cannot be kept, whoever wrote `strict` is told; for others any arguments will do.
enum class Schemas : uint8_t { kept_if_possible, kept_if_strict };

class CallsGrammar {
public:
    CallsGrammar(ByteGrammar& grammar, const CallStyle& style, bool several, Schemas schemas)
        : grammar_(grammar), style_(style), several_(several), schemas_(schemas), parts_(grammar, style.spelling) {}

    /// One call or more, from the first name on.
    Result<Node> make(const std::vector<Tool>& tools) {
        const Node rest =
            style_.before_id.empty() ? ByteGrammar::end : grammar_.text(style_.before_id, id(ByteGrammar::end));
        const Rule identified = grammar_.rule(rest);
        Node any = ByteGrammar::never;
        for (const Tool& tool : tools) {
            RONDO_ASSIGN(const Rule arguments, arguments_of(tool));
            const Node given = grammar_.call(arguments, grammar_.call(identified, ByteGrammar::end));
            any = grammar_.either(grammar_.text(tool.name + style_.between, given), any);
        }
        const Rule one = grammar_.rule(any);
        const Node last = grammar_.text(style_.behind, ByteGrammar::end);
        Node behind = last;
        const size_t most = several_ && !style_.next.empty() ? limits::answer_calls_max : 1;
        for (size_t i = 1; i < most; ++i)
            behind = grammar_.either(last, grammar_.text(style_.next, grammar_.call(one, behind)));
        return grammar_.call(one, behind);
    }

private:
    Node id(Node next) {
        const auto one = [this](Node then) {
            const Node letter = grammar_.either(grammar_.bytes('a', 'z', then), grammar_.bytes('A', 'Z', then));
            return grammar_.either(grammar_.bytes('0', '9', then), letter);
        };
        return grammar_.times(CallStyle::id_characters, CallStyle::id_characters, one, next);
    }

    Result<Rule> arguments_of(const Tool& tool) {
        if (!tool.strict && schemas_ == Schemas::kept_if_strict) return parts_.object();
        Result<Rule> rule = rule_of_schema(tool.parameters, tool.where, grammar_, parts_);
        if (!rule && !tool.strict && !grammar_.is_full()) return parts_.object();
        return rule;
    }

    ByteGrammar& grammar_;
    const CallStyle& style_;
    const bool several_;
    const Schemas schemas_;
    JsonParts parts_;
};

/// Answers of this choice. Null: there was no room for them.
Result<std::shared_ptr<const AnswerFormat>> format_of(const std::vector<Tool>& tools, const ToolChoice& choice,
                                                      const CallStyle& style, Schemas schemas) {
    Status made;
    auto format = AnswerFormat::built_by([&](ByteGrammar& grammar) -> Node {
        const std::string_view cue = style.cue();
        const size_t cued = style.begin.find(cue) + cue.size();
        Node calls = ByteGrammar::never;
        if (choice.kind != ToolChoice::Kind::none) {
            const bool several = choice.several && choice.name.empty();
            const Result<Node> named = CallsGrammar(grammar, style, several, schemas).make(tools);
            if (!named) {
                made = named.error();
                return ByteGrammar::never;
            }
            calls = *named;
        }
        const Node behind = grammar.text(std::string_view(style.begin).substr(cued), calls);
        if (choice.kind == ToolChoice::Kind::required) return grammar.text(cue, behind);
        if (choice.text != nullptr)
            return grammar.either(choice.text->put_into(grammar, ByteGrammar::end), grammar.text(cue, behind));
        if (style.only_first()) return text_or_cued(grammar, cue, behind, ByteGrammar::end);
        return free_text(grammar, cue, behind, true, ByteGrammar::end);
    });
    if (format != nullptr) RONDO_TRY(made);
    return format;
}

}  // namespace

ToolUse::ToolUse() = default;
ToolUse::~ToolUse() = default;

Result<std::shared_ptr<const ToolUse>> ToolUse::make_for(const ChatTemplate* chat_template, const CallStyle* style,
                                                         std::string_view tools, const ToolChoice& choice,
                                                         const std::string& where) {
    if (chat_template != nullptr && chat_template->names("tools")) return make(tools, choice, style, where);
    return make_error(ErrorCode::unsupported, where +
                                                  " cannot be told to this model: its chat template has no word "
                                                  "for them; must be left out");
}

Result<std::shared_ptr<const ToolUse>> ToolUse::make(std::string_view tools_json, const ToolChoice& choice,
                                                     const CallStyle* style, const std::string& where) {
    constexpr JsonBounds bounds{.bytes_max = limits::tools_bytes_max, .values_max = limits::tools_values_max};
    RONDO_TRY(parse_json(tools_json, where, bounds));
    const auto list = Json::parse(tools_json);  // the same with its members in their order
    RONDO_ASSIGN(std::vector<Tool> tools, read_tools(list, where));
    std::shared_ptr<ToolUse> made(new ToolUse());
    made->json_ = list.dump();
    if (!choice.name.empty()) {
        std::erase_if(tools, [&](const Tool& tool) { return tool.name != choice.name; });
        if (tools.empty())
            return make_error(ErrorCode::invalid_argument,
                              "the tool that is to be called is none of " + where + ", must be one of them");
    }
    made->format_ = choice.text;
    const bool calls_none = choice.kind == ToolChoice::Kind::none;
    if (calls_none && (style == nullptr || choice.text != nullptr)) return std::shared_ptr<const ToolUse>(made);
    if (style == nullptr)
        return make_error(ErrorCode::unsupported,
                          where +
                              " cannot be called: the model's chat template does not write calls as a name with "
                              "JSON arguments; tools must be left out");
    if (choice.text != nullptr && style->only_first() && choice.kind == ToolChoice::Kind::automatic)
        return make_error(ErrorCode::unsupported,
                          where +
                              " beside a format of the text: this model's calls begin as JSON does, so one could "
                              "not tell them apart; must be one of the two");
    if (!calls_none) made->style_ = std::make_unique<const CallStyle>(*style);
    for (const Schemas schemas : {Schemas::kept_if_possible, Schemas::kept_if_strict}) {
        RONDO_ASSIGN(made->format_, format_of(tools, choice, *style, schemas));
        if (made->format_ != nullptr) break;
    }
    if (made->format_ == nullptr)
        return make_error(ErrorCode::out_of_range, where +
                                                       " have schemas that are too large together; must be fewer "
                                                       "tools, or smaller schemas, or no strict");
    if (made->format_->is_empty())
        return make_error(ErrorCode::invalid_argument, where +
                                                           " can be called with no arguments that fit their "
                                                           "schemas; must be schemas of which there is a value");
    return std::shared_ptr<const ToolUse>(made);
}

}  // namespace rondo
