#include "cli/measure/eval/wrapped_markdown.hpp"

#include <algorithm>

#include "cli/measure/eval/markdown_table.hpp"

namespace rondo::cli::eval {

namespace {

constexpr size_t characters_max = 120;

std::string wrapped_line(std::string_view line) {
    const std::string_view indent = line.starts_with("- ") ? "  " : "";
    std::string text;
    size_t width = 0;  // of the last line of `text`
    for (size_t begin = 0; begin <= line.size();) {
        const size_t end = std::min(line.find(' ', begin), line.size());
        const std::string_view word = line.substr(begin, end - begin);
        if (begin > 0) {
            const bool fits = width + 1 + width_of(word) <= characters_max;
            text.append(fits ? " " : "\n").append(fits ? "" : indent);
            width = fits ? width + 1 : indent.size();
        }
        text += word;
        width += width_of(word);
        begin = end + 1;
    }
    return text;
}

}  // namespace

std::string wrapped_markdown(std::string_view text) {
    std::string wrapped;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        const bool is_one_line = line.starts_with('|') || line.starts_with('#');
        wrapped += is_one_line ? std::string(line) : wrapped_line(line);
        if (end < text.size()) wrapped += '\n';
        begin = end + 1;
    }
    return wrapped;
}

}  // namespace rondo::cli::eval
