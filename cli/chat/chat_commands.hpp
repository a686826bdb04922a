#pragma once

#include <optional>
#include <string>

#include "cli/chat/chat_partner.hpp"
#include "cli/terminal_text.hpp"

namespace rondo::cli {

/// What a line of the chat does: it is said to the partner, or it is a command about the conversation.
class ChatCommands {
public:
    /// `terminal`: somebody reads and types. `shows_on_terminal`: somebody reads at least.
    ChatCommands(ChatPartner& partner, bool terminal, bool shows_on_terminal)
        : partner_(partner), terminal_(terminal), shows_on_terminal_(shows_on_terminal) {}

    static const char* help();
    /// `line` is not empty. "/NAME" is a command, "//TEXT" says "/TEXT".
    Status take(const std::string& line);
    bool left() const { return left_; }  ///< /quit was said

private:
    Status say(const std::string& message);
    Status command(const std::string& line);
    Status rounds();
    Status rewind(const std::string& round);
    Status list();
    Status show_methods() const;
    Status choose_method(const std::string& name);
    Status stats() const;
    std::string method() const;
    /// On a terminal, prints none of the characters that could command it.
    void print(std::string_view text) const;
    void print(std::string_view piece, TerminalText& of) const;

    ChatPartner& partner_;
    const bool terminal_, shows_on_terminal_;
    bool left_ = false;
    std::optional<TurnEnd> last_;
};

}  // namespace rondo::cli
