#include "actors/gateway/bodies/page_query.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "actors/gateway/bodies/conversation_id.hpp"

namespace rondo {

namespace {

constexpr int64_t limit_max = 100;

/// "a%20b+c" as "a b c"; nothing where a percent sign is not followed by two digits.
std::optional<std::string> decoded(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        uint8_t byte = 0;
        const char* const digits = text.data() + i + 1;
        if (i + 2 >= text.size()) return std::nullopt;
        if (const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
            error != std::errc() || end != digits + 2)
            return std::nullopt;
        out += static_cast<char>(byte);
        i += 2;
    }
    return out;
}

ApiError wrong(const char* field, const std::string& what) {
    return bad_field(field, "invalid_value", std::string(field) + " must be " + what);
}

}  // namespace

ApiResult<PageRequest> parse_page_query(std::string_view query) {
    PageRequest page;
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(pair.size() + 1, query.size()));
        const size_t equals = std::min(pair.find('='), pair.size());
        const std::string_view name = pair.substr(0, equals);
        const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
        if (name == "limit") {
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), page.limit);
            if (error != std::errc() || end != value.data() + value.size() || page.limit < 1 || page.limit > limit_max)
                return wrong("limit", "a whole number 1 to " + std::to_string(limit_max));
        } else if (name == "after") {
            const std::optional<std::string> id = decoded(value);
            if (!id || !is_conversation_id(*id)) return wrong("after", "a conversation's id");
            page.after = *id;
        } else if (!pair.empty()) {
            return bad_field("", "unknown_parameter", "a list takes limit and after, and no other parameter");
        }
    }
    return page;
}

}  // namespace rondo
