#pragma once

#include <string>
#include <string_view>

namespace rondo::cli {

/// Text of others on its way to a terminal: the characters that could command it are left out. It comes in pieces,
/// which may end within a character.
class TerminalText {
public:
    std::string shown(std::string_view piece);

private:
    bool half_ = false;  // the byte before is the first of what may be a control character of two
    int left_ = 0;       // bytes that may go on with a character
};

/// Prints it on standard output, which may be a terminal.
void print_text(std::string_view text);

/// Whether a control character of two bytes, U+0080 to U+009F, begins here.
bool begins_control_of_two(std::string_view text);

}  // namespace rondo::cli
