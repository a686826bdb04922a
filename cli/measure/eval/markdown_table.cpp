#include "cli/measure/eval/markdown_table.hpp"

#include <algorithm>
#include <cstdio>

namespace rondo::cli::eval {

size_t width_of(std::string_view text) {
    return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string table_text(const std::vector<TableLine>& lines) {
    std::vector<size_t> widths(lines.front().size(), 3);
    for (const TableLine& line : lines) {
        for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
    }
    std::string text;
    for (size_t l = 0; l < lines.size(); ++l) {
        text += '|';
        for (size_t i = 0; i < widths.size(); ++i) {
            text += ' ' + lines[l][i] + std::string(widths[i] - width_of(lines[l][i]), ' ') + " |";
        }
        text += '\n';
        if (l > 0) continue;
        for (const size_t width : widths) text += '|' + std::string(width + 2, '-');
        text += "|\n";
    }
    return text;
}

std::string number(double value, int decimals) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", decimals, value);
    return text;
}

std::string signed_number(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%+.3f", value);
    return text;
}

std::string interval_text(const Interval& interval, int decimals) {
    return " [" + number(interval.low, decimals) + ", " + number(interval.high, decimals) + "]";
}

std::string signed_interval(const Interval& interval) {
    return " [" + signed_number(interval.low) + ", " + signed_number(interval.high) + "]";
}

}  // namespace rondo::cli::eval
