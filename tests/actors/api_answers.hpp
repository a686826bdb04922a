#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/gateway/bodies/answer_parts.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

/// Token 0 is "Hi", 1 and 2 the halves of "é", 3 a byte that begins nothing, 4 empty as special tokens are, 5 is " x".
inline std::string bytes_of_test_token(int32_t id) {
    const std::vector<std::string> tokens = {"Hi", "\xC3", "\xA9", "\xFF", "", " x"};
    return tokens.at(static_cast<size_t>(id));
}

/// The JSON of one event; fails when the event is not one, or not valid UTF-8.
inline nlohmann::json event_json(const std::string& event) {
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    EXPECT_TRUE(event.ends_with("\n\n")) << event;
    EXPECT_TRUE(unicode::is_valid(event)) << event;
    if (event.size() < 8) return {};
    const std::string text = event.substr(6, event.size() - 8);
    EXPECT_EQ(text.find_first_of("\r\n"), std::string::npos) << event;
    return nlohmann::json::parse(text);
}

inline TurnEnd ended(TurnOutcome outcome, int64_t completion_tokens) {
    TurnEnd end;
    end.outcome = outcome;
    end.usage = {10, completion_tokens, 4, 3, 3};
    end.timings = {0.001, 0.002, 0.25, 1.5, 0.2531234567, 1};
    end.attention = {"loopserve", {25, 100, 1.5, 2}, {16, 128, 0.0, 0}, 3, 0, 1};
    return end;
}

inline nlohmann::json parsed(const char* text) {
    return nlohmann::json::parse(text);
}

}  // namespace rondo
