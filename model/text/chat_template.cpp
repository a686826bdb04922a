#include "model/text/chat_template.hpp"

#include <algorithm>
#include <new>
#include <set>

#include "config/limits.hpp"
#include "model/files/strict_json.hpp"
#include "model/text/jinja/eval.hpp"
#include "model/text/jinja/parser.hpp"
#include "model/text/jinja/print.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

struct ChatTemplate::Program {
    std::string source;
    bool asks_for_no_content = false;
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

/// No content is None for a template that asks for that, and "" for others, which may append it.
Value message_dict(jinja::Runtime& runtime, const ChatMessage& message, bool asks_for_none) {
    std::vector<std::pair<Value, Value>> members{{runtime.text("role"), runtime.text(message.role)},
                                                 {runtime.text("content"), runtime.text(message.content)}};
    if (!message.more_json.empty()) {
        const Value more = jinja::parse_json(runtime, message.more_json, "a message's further members");
        if (!more.dict()) jinja::fail("wants a message's further members as a JSON object");
        for (const auto& [name, value] : more.dict()->entries) {
            if (*name.text() == "content") {
                if (asks_for_none && message.content.empty() && value.is<std::nullptr_t>()) members[1].second = value;
            } else if (*name.text() != "role") {
                members.emplace_back(name, value);
            }
        }
    }
    return runtime.dict(std::move(members));
}

/// The variables a template finds, as Hugging Face passes them: `tools` and `documents` are None unless given, a
/// special token the model lacks is not defined.
void fill_context(jinja::Runtime& runtime, const ChatTemplateInput& input, const jinja::Dict* extra, bool asks_for_none,
                  jinja::Scope& context) {
    auto& variables = context.variables;
    std::vector<Value> messages;
    for (const ChatMessage& message : input.messages) messages.push_back(message_dict(runtime, message, asks_for_none));
    variables["messages"] = runtime.list(std::move(messages));
    variables["add_generation_prompt"] = input.add_generation_prompt;
    variables["tools"] = nullptr;
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

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& where) {
    if (source.size() > limits::template_bytes_max)
        return make_error(ErrorCode::out_of_range, where + ": the chat template has " + std::to_string(source.size()) +
                                                       " bytes, must be at most " +
                                                       std::to_string(limits::template_bytes_max));
    try {
        auto program = std::make_unique<Program>();
        program->source = source;
        program->asks_for_no_content = asks_for_no_content(source);
        std::vector<jinja::Token> tokens = jinja::tokenize(source);
        for (const jinja::Token& token : tokens)
            if (token.kind == jinja::Token::Kind::name || token.kind == jinja::Token::Kind::text)
                program->words.insert(token.text);
        program->block = jinja::Parser(std::move(tokens)).parse();
        return ChatTemplate(std::move(program));
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
        fill_context(runtime, input, extra.dict(), program_->asks_for_no_content, context);
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
