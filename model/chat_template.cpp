#include "model/chat_template.hpp"

#include <algorithm>
#include <new>

#include "config/limits.hpp"
#include "model/jinja_eval.hpp"
#include "model/jinja_parser.hpp"
#include "model/jinja_print.hpp"

namespace rondo {

struct ChatTemplate::Program {
    std::string where;
    jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

namespace {

using jinja::Value;

Error describe(const std::string& where, int line, const jinja::Fault& fault) {
    const std::string place = line > 0 ? where + ":" + std::to_string(line) : where;
    std::string message = place + ": the chat template " + fault.message;
    std::replace_if(
        message.begin(), message.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return make_error(fault.code, std::move(message));
}

Value message_dict(jinja::Runtime& runtime, const ChatMessage& message) {
    return runtime.dict(
        {{runtime.text("role"), runtime.text(message.role)}, {runtime.text("content"), runtime.text(message.content)}});
}

/// The variables a template finds, as Hugging Face passes them: `tools` and `documents` are None unless given, a
/// special token the model lacks is not defined.
void fill_context(jinja::Runtime& runtime, const ChatTemplateInput& input, const jinja::Dict* extra,
                  jinja::Scope& context) {
    auto& variables = context.variables;
    std::vector<Value> messages;
    for (const ChatMessage& message : input.messages) messages.push_back(message_dict(runtime, message));
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
        return make_error(ErrorCode::out_of_range, where + ": the chat template is longer than " +
                                                       std::to_string(limits::template_bytes_max) + " bytes");
    try {
        auto program = std::make_unique<Program>();
        program->where = where;
        program->block = jinja::Parser(jinja::tokenize(source)).parse();
        return ChatTemplate(std::move(program));
    } catch (const jinja::Fault& fault) {
        return describe(where, fault.line, fault);
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory, where + ": no memory to parse the chat template");
    }
}

Result<std::string> ChatTemplate::render(const ChatTemplateInput& input) const {
    jinja::Runtime runtime;
    try {
        Value extra;
        jinja::Scope context;
        if (!input.extra_json.empty()) {
            extra = jinja::parse_json(runtime, input.extra_json);
            if (!extra.dict()) jinja::fail("wants its further variables as a JSON object");
        }
        fill_context(runtime, input, extra.dict(), context);
        jinja::TextBuilder out(runtime);
        jinja::Evaluator(runtime, context).run(program_->block, out);
        if (out.str().size() > limits::template_output_bytes_max)
            jinja::fail("prints more than " + std::to_string(limits::template_output_bytes_max >> 20) + " MiB",
                        ErrorCode::out_of_range);
        return std::move(out.str());
    } catch (const jinja::Fault& fault) {
        return describe(program_->where, runtime.line, fault);
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory, program_->where + ": no memory to render the chat template");
    }
}

}  // namespace rondo
