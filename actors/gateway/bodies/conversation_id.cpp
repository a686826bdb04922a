#include "actors/gateway/bodies/conversation_id.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "config/limits.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace {

// Controls; zero-width and bidirectional marks; line and paragraph separators; the byte order mark and its mirror.
constexpr std::array<std::pair<char32_t, char32_t>, 8> unprintable{{{0x00, 0x1F},
                                                                    {0x7F, 0x9F},
                                                                    {0x061C, 0x061C},
                                                                    {0x200B, 0x200F},
                                                                    {0x2028, 0x202E},
                                                                    {0x2060, 0x206F},
                                                                    {0xFEFF, 0xFEFF},
                                                                    {0xFFF9, 0xFFFF}}};

}  // namespace

bool is_printable(char32_t c) {
    return std::ranges::none_of(unprintable, [c](const auto& range) { return c >= range.first && c <= range.second; });
}

bool is_conversation_id(std::string_view text) {
    if (text.empty() || text.size() > limits::conversation_id_bytes_max) return false;
    for (size_t at = 0; at < text.size();) {
        const unicode::Decoded c = unicode::decode(text, at);
        if (c.kind != unicode::Decoded::Kind::valid || !is_printable(c.value)) return false;
        at += c.bytes;
    }
    return true;
}

}  // namespace rondo
