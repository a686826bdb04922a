#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

struct ChatMessage {
    std::string role;  ///< "system", "user", "assistant", "tool"
    std::string content;
};

struct ChatTemplateInput {
    std::vector<ChatMessage> messages;
    bool add_generation_prompt = true;
    std::string bos_token;
    std::string eos_token;
    /// Further variables a template may ask for, as JSON text ("enable_thinking": false …); "" for none.
    std::string extra_json;
};

/// A compiled Jinja template of a model. Immutable, safe to share. A construct it does not know is an error of `parse`
/// that names it and the line; what the template raises itself (raise_exception) is an error of `render`.
class ChatTemplate {
public:
    static Result<ChatTemplate> parse(std::string_view source, const std::string& where);
    Result<std::string> render(const ChatTemplateInput& input) const;

    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

private:
    struct Program;
    explicit ChatTemplate(std::unique_ptr<const Program> program);
    std::unique_ptr<const Program> program_;
};

}  // namespace rondo
