#include "model/text/tokenizer_added.hpp"

#include <algorithm>

#include "model/text/unicode.hpp"

namespace rondo {

namespace {

/// Where the character that ends at `end` begins.
size_t character_before(std::string_view text, size_t end) {
    do --end;
    while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
    return end;
}

bool is_inside_word(std::string_view text, size_t begin, size_t end) {
    const bool word_before = begin > 0 && unicode::is_word(unicode::decode(text, character_before(text, begin)).value);
    return word_before || (end < text.size() && unicode::is_word(unicode::decode(text, end).value));
}

size_t skip_spaces_left(std::string_view text, size_t begin, size_t least) {
    while (begin > least) {
        const size_t before = character_before(text, begin);
        if (!unicode::is_whitespace(unicode::decode(text, before).value)) break;
        begin = before;
    }
    return begin;
}

size_t skip_spaces_right(std::string_view text, size_t end) {
    while (end < text.size()) {
        const auto c = unicode::decode(text, end);
        if (!unicode::is_whitespace(c.value)) break;
        end += c.bytes;
    }
    return end;
}

}  // namespace

void AddedTokens::add(AddedToken token) {
    if (!token.text.empty()) tokens_.push_back(std::move(token));
}

void AddedTokens::prepare() {
    std::stable_sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
    // Of tokens with the same text only the first can be found, and the first that is not special.
    std::vector<AddedToken> found;
    for (auto& token : tokens_) {
        const AddedToken* before = found.empty() || found.back().text != token.text ? nullptr : &found.back();
        if (before == nullptr || (before->special && !token.special)) found.push_back(std::move(token));
    }
    tokens_ = std::move(found);
    first_.assign(257, 0);
    for (const auto& token : tokens_) ++first_[static_cast<uint8_t>(token.text[0]) + 1];
    for (size_t b = 1; b < first_.size(); ++b) first_[b] += first_[b - 1];
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t at, bool special) const {
    const auto byte = static_cast<uint8_t>(text[at]);
    auto low = tokens_.begin() + first_[byte], high = tokens_.begin() + first_[byte + 1];
    const AddedToken* longest = nullptr;
    // The tokens that share the first `length` bytes with the text are one range of the sorted list; each byte narrows
    // it.
    for (size_t length = 1; low != high; ++length) {
        if (low->text.size() == length) {
            const auto same = std::find_if(
                low, high, [&](const auto& token) { return token.text.size() > length || special || !token.special; });
            if (same != high && same->text.size() == length) longest = &*same;
            low = std::find_if(low, high, [&](const auto& token) { return token.text.size() > length; });
        }
        if (at + length >= text.size()) break;
        const auto next = static_cast<uint8_t>(text[at + length]);
        const auto byte_at = [length](const AddedToken& token) { return static_cast<uint8_t>(token.text[length]); };
        low = std::partition_point(low, high, [&](const auto& token) { return byte_at(token) < next; });
        high = std::partition_point(low, high, [&](const auto& token) { return byte_at(token) == next; });
    }
    return longest;
}

bool AddedTokens::has(int32_t id) const {
    return std::ranges::find(tokens_, id, &AddedToken::id) != tokens_.end();
}

size_t AddedTokens::spaces_taken_by(int32_t id, std::string_view text) const {
    const auto token = std::ranges::find(tokens_, id, &AddedToken::id);
    return token != tokens_.end() && token->takes_spaces_right ? skip_spaces_right(text, 0) : 0;
}

void AddedTokens::split(std::string_view text, bool special, std::vector<Segment>& segments) const {
    segments.clear();
    size_t done = 0;
    for (size_t at = 0; at < text.size() && !tokens_.empty();) {
        const AddedToken* token = longest_at(text, at, special);
        if (token == nullptr) {
            ++at;
            continue;
        }
        size_t begin = at, end = at + token->text.size();
        at = end;
        if (token->single_word && is_inside_word(text, begin, end)) continue;
        if (token->takes_spaces_left) begin = skip_spaces_left(text, begin, done);
        if (token->takes_spaces_right) end = skip_spaces_right(text, end);
        if (begin > done) segments.push_back({done, begin, -1});
        segments.push_back({begin, end, token->id});
        done = at = end;
    }
    if (done < text.size()) segments.push_back({done, text.size(), -1});
}

}  // namespace rondo
