#include "model/text/chat_template.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <set>

#include "config/limits.hpp"
#include "model/files/strict_json.hpp"
#include "model/text/jinja/eval.hpp"
#include "model/text/jinja/parser.hpp"
#include "model/text/jinja/print.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

/// What a template expects of messages, where templates differ.
struct ExpectedOfMessages {
    bool none_for_no_content = false;  ///< None, not "", where a message has no content
    bool text_for_arguments = false;   ///< the arguments of a tool call as JSON text, not as a dict
};

struct ChatTemplate::Program {
    std::string source;
    ExpectedOfMessages expected;
    std::set<std::string, std::less<>> words;
    jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool is_chat_role(std::string_view role) {
    return role == "system" || role == "user" || role == "assistant" || role == "tool";
}

Status check_roles(std::span<const ChatMessage> messages) {
    for (size_t i = 0; i < messages.size(); ++i) {
        if (is_chat_role(messages[i].role)) continue;
        return make_error(
            ErrorCode::invalid_argument,
            "messages[" + std::to_string(i) + "].role is unknown, must be system, user, assistant or tool");
    }
    return {};
}

Status check_texts(std::span<const ChatMessage> messages) {
    for (size_t i = 0; i < messages.size(); ++i) {
        if (unicode::is_valid(messages[i].content)) continue;
        return make_error(ErrorCode::invalid_argument,
                          "messages[" + std::to_string(i) + "].content must be valid UTF-8");
    }
    return {};
}

Status check_further_members(std::span<const ChatMessage> messages) {
    for (size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].more_json.empty()) continue;
        const auto members =
            parse_json_object(messages[i].more_json, "messages[" + std::to_string(i) + "]'s further members");
        if (!members) return make_error(ErrorCode::invalid_argument, members.error().message);
    }
    return {};
}

namespace {

using jinja::Value;

Error describe(const std::string& where, int line, const jinja::Fault& fault) {
    const std::string place = line > 0 ? where + ":" + std::to_string(line) : where;
    std::string message = place + ": the chat template " + fault.message;
    std::replace_if(
        message.begin(), message.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return make_error(fault.code, std::move(message));
}

/// Whether a template asks somewhere if a message's content is none, as `m.content is none`.
bool asks_for_no_content(std::string_view source) {
    constexpr std::string_view name = "content";
    const auto without = [](std::string_view text, std::string_view letters) {
        return text.substr(0, text.find_last_not_of(letters) + 1);
    };
    for (const std::string_view test : {" is none", " is not none"}) {
        for (size_t at = source.find(test); at != std::string_view::npos; at = source.find(test, at + 1)) {
            std::string_view before = without(without(source.substr(0, at), " "), "]'\"");
            if (!before.ends_with(name)) continue;
            before.remove_suffix(name.size());
            if (before.ends_with('.') || before.ends_with('\'') || before.ends_with('"')) return true;
        }
    }
    return false;
}

/// `value` with each dict at the end of the way as its JSON text. The way leads through lists and the named members.
Value with_json_text(jinja::Runtime& runtime, const Value& value, std::span<const std::string_view> way) {
    if (const auto* list = value.sequence()) {
        std::vector<Value> items;
        for (const Value& item : list->items) items.push_back(with_json_text(runtime, item, way));
        return runtime.list(std::move(items));
    }
    const auto* dict = value.dict();
    if (dict == nullptr) return value;
    if (way.empty()) {
        jinja::TextBuilder text(runtime);
        jinja::print_json(text, value, {});
        return text.finish();
    }
    auto entries = dict->entries;
    for (auto& [name, member] : entries)
        if (*name.text() == way.front()) member = with_json_text(runtime, member, way.subspan(1));
    return runtime.dict(std::move(entries));
}

/// No content is None for a template that asks for that, and "" for others, which may append it.
Value message_dict(jinja::Runtime& runtime, const ChatMessage& message, const ExpectedOfMessages& expected) {
    constexpr std::array<std::string_view, 3> arguments{"tool_calls", "function", "arguments"};
    std::vector<std::pair<Value, Value>> members{{runtime.text("role"), runtime.text(message.role)},
                                                 {runtime.text("content"), runtime.text(message.content)}};
    if (!message.more_json.empty()) {
        Value more = jinja::parse_json(runtime, message.more_json, "a message's further members");
        if (!more.dict()) jinja::fail("wants a message's further members as a JSON object");
        if (expected.text_for_arguments) more = with_json_text(runtime, more, arguments);
        for (const auto& [name, value] : more.dict()->entries) {
            if (*name.text() == "content") {
                if (expected.none_for_no_content && message.content.empty() && value.is<std::nullptr_t>())
                    members[1].second = value;
            } else if (*name.text() != "role") {
                members.emplace_back(name, value);
            }
        }
    }
    return runtime.dict(std::move(members));
}

/// The variables a template finds, as Hugging Face passes them: `tools` and `documents` are None unless given, a
/// special token the model lacks is not defined.
void fill_context(jinja::Runtime& runtime, const ChatTemplateInput& input, const jinja::Dict* extra,
                  const ExpectedOfMessages& expected, jinja::Scope& context) {
    auto& variables = context.variables;
    std::vector<Value> messages;
    for (const ChatMessage& message : input.messages) messages.push_back(message_dict(runtime, message, expected));
    variables["messages"] = runtime.list(std::move(messages));
    variables["add_generation_prompt"] = input.add_generation_prompt;
    variables["tools"] = nullptr;
    if (!input.tools_json.empty()) variables["tools"] = jinja::parse_json(runtime, input.tools_json, "the tools");
    variables["documents"] = nullptr;
    if (!input.bos_token.empty()) variables["bos_token"] = runtime.text(input.bos_token);
    if (!input.eos_token.empty()) variables["eos_token"] = runtime.text(input.eos_token);
    if (!extra) return;
    for (const auto& [name, value] : extra->entries) {
        if (*name.text() == "messages" || *name.text() == "add_generation_prompt")
            jinja::fail("has '" + *name.text() + "' among its further variables");
        variables[*name.text()] = value;
    }
}

/// Whether the template writes a tool call, and its arguments not as Python prints a dict.
bool writes_call(const ChatTemplate& program) {
    ChatTemplateInput input;
    input.messages = {{"user", "a"},
                      {"assistant", "",
                       R"({"content":null,"tool_calls":[{"id":"call00001","type":"function",)"
                       R"("function":{"name":"f","arguments":{"a":"b"}}}]})"}};
    input.add_generation_prompt = false;
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    const auto text = program.render(input);
    return text && text->find("{'a': 'b'}") == std::string::npos;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& where) {
    if (source.size() > limits::template_bytes_max)
        return make_error(ErrorCode::out_of_range, where + ": the chat template has " + std::to_string(source.size()) +
                                                       " bytes, must be at most " +
                                                       std::to_string(limits::template_bytes_max));
    try {
        auto program = std::make_unique<Program>();
        program->source = source;
        program->expected.none_for_no_content = asks_for_no_content(source);
        std::vector<jinja::Token> tokens = jinja::tokenize(source);
        for (const jinja::Token& token : tokens)
            if (token.kind == jinja::Token::Kind::name || token.kind == jinja::Token::Kind::text)
                program->words.insert(token.text);
        program->block = jinja::Parser(std::move(tokens)).parse();
        bool& text_for_arguments = program->expected.text_for_arguments;
        ChatTemplate made(std::move(program));
        if (made.names("arguments") && !writes_call(made)) {
            text_for_arguments = true;
            text_for_arguments = writes_call(made);
        }
        return made;
    } catch (const jinja::Fault& fault) {
        return describe(where, fault.line, fault);
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory, where + ": no memory to parse the chat template");
    }
}

bool ChatTemplate::names(std::string_view word) const {
    return program_->words.contains(word);
}

bool ChatTemplate::mentions(std::string_view text) const {
    return program_->source.find(text) != std::string::npos;
}

Result<std::string> ChatTemplate::render(const ChatTemplateInput& input, const std::stop_token& stop) const {
    constexpr const char* where = "the model's template";  // users are told, and they have no business with its path
    jinja::Runtime runtime(stop);
    try {
        Value extra;
        jinja::Scope context;
        if (!input.extra_json.empty()) {
            extra = jinja::parse_json(runtime, input.extra_json, "the further variables");
            if (!extra.dict()) jinja::fail("wants its further variables as a JSON object");
        }
        fill_context(runtime, input, extra.dict(), program_->expected, context);
        jinja::TextBuilder out(runtime);
        jinja::Evaluator(runtime, context).run(program_->block, out);
        if (out.str().size() > limits::template_output_bytes_max)
            jinja::fail("prints more than " + std::to_string(limits::template_output_bytes_max >> 20) + " MiB",
                        ErrorCode::out_of_range);
        return std::move(out.str());
    } catch (const jinja::Fault& fault) {
        return describe(where, runtime.line, fault);
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory, std::string(where) + ": no memory to render the chat template");
    }
}

}  // namespace rondo
