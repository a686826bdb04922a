#include "actors/gateway/bodies/token_logprobs.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "model/text/unicode.hpp"

namespace rondo {

namespace {

bool continues_character(char byte) {
    return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

OrderedJson entry(const TokenLogprob& token, const TokenBytes& bytes_of) {
    const std::string bytes = bytes_of(token.id);
    OrderedJson values = OrderedJson::array();
    for (const char byte : bytes) values.push_back(static_cast<uint8_t>(byte));
    return {{"token", token_text(bytes)}, {"logprob", token.logprob}, {"bytes", std::move(values)}};
}

/// The token that was taken, and those that were likely in its place.
OrderedJson entry_with_others(std::span<const TokenLogprob> at, const TokenBytes& bytes_of) {
    OrderedJson token = entry(at.front(), bytes_of);
    token["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& other : at.subspan(1)) token["top_logprobs"].push_back(entry(other, bytes_of));
    return token;
}

}  // namespace

std::string token_text(const std::string& bytes) {
    std::string text;
    unicode::repair(bytes, true, text);
    return text;
}

OrderedJson chat_logprobs(const TurnDelta& delta, const TokenBytes& bytes_of) {
    if (delta.logprobs.empty()) return nullptr;
    OrderedJson content = OrderedJson::array();
    for (const std::vector<TokenLogprob>& at : delta.logprobs)
        if (!at.empty()) content.push_back(entry_with_others(at, bytes_of));
    return {{"content", std::move(content)}};
}

std::string chat_logprobs_text(const TurnDelta& delta, const TokenBytes& bytes_of) {
    if (delta.logprobs.empty()) return "null";
    std::string text = R"({"content":[)";
    bool is_first = true;
    for (const std::vector<TokenLogprob>& at : delta.logprobs) {
        if (at.empty()) continue;
        if (!std::exchange(is_first, false)) text += ',';
        text += json_text(entry_with_others(at, bytes_of));
    }
    return text += "]}";
}

OrderedJson CompletionLogprobs::next(const TurnDelta& delta, const TokenBytes& bytes_of) {
    if (delta.logprobs.empty()) return nullptr;
    OrderedJson tokens = OrderedJson::array(), logprobs = tokens, tops = tokens, offsets = tokens;
    for (const std::vector<TokenLogprob>& at : delta.logprobs) {
        if (at.empty()) continue;
        const std::string bytes = bytes_of(at.front().id);
        // A token that goes on with a character stands where that character began.
        const bool inside = !bytes.empty() && continues_character(bytes.front()) && characters_ > 0;
        offsets.push_back(characters_ - (inside ? 1 : 0));
        characters_ += std::ranges::count_if(bytes, [](char byte) { return !continues_character(byte); });
        tokens.push_back(token_text(bytes));
        logprobs.push_back(at.front().logprob);
        // Tokens that look alike once repaired are one key; the likeliest, which comes first, keeps it.
        OrderedJson top = OrderedJson::object();
        for (size_t i = 1; i < at.size(); ++i) top.emplace(token_text(bytes_of(at[i].id)), at[i].logprob);
        top.emplace(tokens.back().get_ref<const std::string&>(), at.front().logprob);
        tops.push_back(std::move(top));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(offsets)}};
}

}  // namespace rondo
