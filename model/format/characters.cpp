#include "model/format/characters.hpp"

#include <algorithm>
#include <string>

#include "model/text/unicode.hpp"

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

constexpr char32_t last_character = 0x10FFFF;
constexpr Characters::Range surrogates{0xD800, 0xDFFF};  // halves of UTF-16, which are no characters

std::string utf8_of(char32_t character) {
    std::string bytes;
    unicode::append(bytes, character);
    return bytes;
}

/// The tails of `low` to `high`, which have as many bytes, from byte `at` on.
Node between(ByteGrammar& grammar, std::string_view low, std::string_view high, Node next) {
    if (low.empty()) return next;
    const auto first = static_cast<uint8_t>(low[0]);
    const auto last = static_cast<uint8_t>(high[0]);
    const std::string least(low.size() - 1, '\x80');
    const std::string most(low.size() - 1, '\xBF');
    if (first == last) return grammar.bytes(first, last, between(grammar, low.substr(1), high.substr(1), next));
    const bool from_least = low.substr(1) == least;
    const bool to_most = high.substr(1) == most;
    const auto whole_first = static_cast<uint8_t>(first + (from_least ? 0 : 1));
    const auto whole_last = static_cast<uint8_t>(last - (to_most ? 0 : 1));
    Node all = ByteGrammar::never;
    if (whole_first <= whole_last) all = grammar.bytes(whole_first, whole_last, between(grammar, least, most, next));
    if (!from_least)
        all = grammar.either(grammar.bytes(first, first, between(grammar, low.substr(1), most, next)), all);
    if (!to_most) all = grammar.either(grammar.bytes(last, last, between(grammar, least, high.substr(1), next)), all);
    return all;
}

}  // namespace

Characters::Characters(std::vector<Range> ranges) {
    std::ranges::sort(ranges);
    for (const Range& range : ranges) {
        if (range.second < range.first) continue;
        if (!ranges_.empty() && range.first <= ranges_.back().second + 1) {
            ranges_.back().second = std::max(ranges_.back().second, range.second);
        } else {
            ranges_.push_back(range);
        }
    }
}

Characters Characters::all() {
    return Characters({{0, surrogates.first - 1}, {surrogates.second + 1, last_character}});
}

Characters Characters::operator|(const Characters& other) const {
    std::vector<Range> ranges = ranges_;
    ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
    return Characters(std::move(ranges));
}

Characters Characters::operator~() const {
    std::vector<Range> taken = ranges_;
    taken.push_back(surrogates);
    std::vector<Range> left;
    char32_t from = 0;
    for (const Range& range : Characters(std::move(taken)).ranges_) {
        if (range.first > from) left.emplace_back(from, range.first - 1);
        from = range.second + 1;
    }
    if (from <= last_character) left.emplace_back(from, last_character);
    return Characters(std::move(left));
}

bool Characters::has(char32_t character) const {
    return std::ranges::any_of(
        ranges_, [character](const Range& range) { return range.first <= character && character <= range.second; });
}

Node Characters::utf8(ByteGrammar& grammar, Node next) const {
    // The last characters of one, two, three and four bytes.
    constexpr char32_t last_of_size[] = {0x7F, 0x7FF, 0xFFFF, last_character};
    Node all = ByteGrammar::never;
    for (const Range& range : ranges_) {
        char32_t from = range.first;
        for (const char32_t last : last_of_size) {
            if (from > last || from > range.second) continue;
            const char32_t to = std::min(last, range.second);
            all = grammar.either(between(grammar, utf8_of(from), utf8_of(to), next), all);
            from = to + 1;
        }
    }
    return all;
}

}  // namespace rondo
