#pragma once

#include <string>
#include <string_view>

namespace rondo {

/// What the transport leaves encoded in a path: a slash and a percent sign.
inline std::string decode_rest(std::string_view text) {
    std::string decoded;
    for (; !text.empty(); text.remove_prefix(1)) {
        const bool is_slash = text.starts_with("%2F");
        if (!is_slash && !text.starts_with("%25")) {
            decoded += text.front();
            continue;
        }
        decoded += is_slash ? '/' : '%';
        text.remove_prefix(2);
    }
    return decoded;
}

}  // namespace rondo
