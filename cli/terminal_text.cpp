#include "cli/terminal_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

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

/// A byte that goes on with a character belongs to one: what is left out must not join its neighbours to a control.
std::string TerminalText::shown(std::string_view piece) {
    std::string text;
    for (const char byte : piece) {
        const auto code = static_cast<unsigned char>(byte);
        const bool goes_on = (code & 0xc0) == 0x80;
        const bool was_half = std::exchange(half_, false);
        if (goes_on) {
            if (was_half && !is_second_of_two(byte)) text += first_of_two;
            if ((was_half && !is_second_of_two(byte)) || left_ > 0) text += byte;
            left_ = was_half ? 0 : std::max(left_ - 1, 0);
            continue;
        }
        left_ = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : code >= 0xc3 ? 1 : 0;
        half_ = byte == first_of_two;
        if (!half_ && !commands_a_terminal(byte)) text += byte;
    }
    return text;
}

void print_text(std::string_view text) {
    const std::string shown = isatty(STDOUT_FILENO) == 1 ? TerminalText().shown(text) : std::string(text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
}

bool begins_control_of_two(std::string_view text) {
    return text.size() >= 2 && text[0] == first_of_two && is_second_of_two(text[1]);
}

}  // namespace rondo::cli
