#include "cli/terminal_text.hpp"

namespace rondo::cli {

namespace {

constexpr char first_of_two = '\xc2';

bool is_second_of_two(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code >= 0x80 && code <= 0x9f;
}

bool commands_a_terminal(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return (code < 0x20 && byte != '\n' && byte != '\t') || code == 0x7f;
}

}  // namespace

std::string TerminalText::shown(std::string_view piece) {
    std::string text;
    for (const char byte : piece) {
        const bool was_half = half_;
        half_ = false;
        if (was_half && is_second_of_two(byte)) continue;
        if (was_half) text += first_of_two;
        half_ = byte == first_of_two;
        if (!half_ && !commands_a_terminal(byte)) text += byte;
    }
    return text;
}

bool begins_control_of_two(std::string_view text) {
    return text.size() >= 2 && text[0] == first_of_two && is_second_of_two(text[1]);
}

}  // namespace rondo::cli
