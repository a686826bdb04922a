#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

/// Text from a file, fit for a one-line error: in quotes, cut short, anything that is not printable ASCII shown as '?'.
inline std::string in_quotes(std::string_view text, size_t bytes_max = 80) {
    std::string out = "'";
    for (const char c : text.substr(0, bytes_max)) out += c >= ' ' && c <= '~' ? c : '?';
    if (text.size() > bytes_max) out += "...";
    return out + "'";
}

}  // namespace rondo
