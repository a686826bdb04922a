#pragma once

#include <optional>
#include <string>

#include "cli/chat/chat_partner.hpp"

namespace rondo::cli {

/// What a line of the chat does: it is said to the partner, or it is a command about the conversation.
class ChatCommands {
public:
    ChatCommands(ChatPartner& partner, bool terminal) : partner_(partner), terminal_(terminal) {}

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

    ChatPartner& partner_;
    bool terminal_, left_ = false;
    std::optional<TurnEnd> last_;
};

}  // namespace rondo::cli
