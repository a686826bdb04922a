#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "model/text/chat_message.hpp"

namespace rondo {

/// "system", "user", "assistant" or "tool".
bool is_chat_role(std::string_view role);
/// An error names the first message whose role is none.
Status check_roles(std::span<const ChatMessage> messages);
/// The first whose text no tokenizer takes.
Status check_texts(std::span<const ChatMessage> messages);
/// The first whose further members no template could be given.
Status check_further_members(std::span<const ChatMessage> messages);

struct ChatTemplateInput {
    std::vector<ChatMessage> messages;
    bool add_generation_prompt = true;
    std::string bos_token;
    std::string eos_token;
    /// Further variables a template may ask for, as JSON text ("enable_thinking": false …); "" for none.
    std::string extra_json;
    std::string tools_json;  ///< tools that the model may call, as a JSON list's text in OpenAI's form; "" for none
};

/// A compiled Jinja template of a model. Immutable, safe to share. A construct it does not know is an error of `parse`
/// that names it and the line; what the template raises itself (raise_exception) is an error of `render`. `stop` may be
/// requested on another thread; the error is then ErrorCode::cancelled. Some templates join the arguments of a tool
/// call to text, others look into them: `parse` tries which, and `render` gives text or a dict.
class ChatTemplate {
public:
    static Result<ChatTemplate> parse(std::string_view source, const std::string& where);
    Result<std::string> render(const ChatTemplateInput& input, const std::stop_token& stop = {}) const;

    /// Whether it has this word as a variable, an attribute or a string: else no value of that name changes what it
    /// prints.
    bool names(std::string_view word) const;
    /// Whether this text stands in its source.
    bool mentions(std::string_view text) const;

    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

private:
    struct Program;
    explicit ChatTemplate(std::unique_ptr<const Program> program);
    std::unique_ptr<const Program> program_;
};

}  // namespace rondo
