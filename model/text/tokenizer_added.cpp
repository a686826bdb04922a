#include "model/text/tokenizer_added.hpp"

#include <algorithm>

#include "model/text/unicode.hpp"

namespace rondo {

namespace {

constexpr size_t bytes_max = size_t{8} << 20;     // of all tokens' texts; a byte takes some 30 of memory
constexpr size_t bytes_apart = size_t{64} << 10;  // of a text, between two looks at whether to stop

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

Status AddedTokens::add(AddedToken token) {
    bytes_ += token.text.size();
    if (bytes_ > bytes_max)
        return make_error(ErrorCode::out_of_range,
                          "the added tokens must have at most " + std::to_string(bytes_max) + " bytes in all");
    if (!token.text.empty()) tokens_.push_back(std::move(token));
    return Status::ok();
}

void AddedTokens::prepare() {
    std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
        return std::lexicographical_compare(a.text.rbegin(), a.text.rend(), b.text.rbegin(), b.text.rend());
    });
    // Of tokens with the same text only the first can be found, and the first that is not special.
    std::vector<AddedToken> found;
    for (auto& token : tokens_) {
        const AddedToken* before = found.empty() || found.back().text != token.text ? nullptr : &found.back();
        if (before == nullptr || (before->special && !token.special)) found.push_back(std::move(token));
    }
    tokens_ = std::move(found);
    grow_tree();
}

void AddedTokens::grow_tree() {
    struct Range {
        uint32_t low, high;  // of tokens_: those that end with a node's text
    };
    std::vector<Range> ranges{{0, static_cast<uint32_t>(tokens_.size())}};
    nodes_.assign(1, {});
    last_.fill(0);
    size_t length = 0, level_end = 1;  // of the texts of this level's nodes
    for (uint32_t at = 0; at < nodes_.size(); ++at) {
        if (at == level_end) {
            ++length;
            level_end = nodes_.size();
        }
        auto [low, high] = ranges[at];
        nodes_[at].first_child = static_cast<uint32_t>(nodes_.size());
        for (uint32_t own = low; low < high && tokens_[low].text.size() == length; ++low) {
            if (low == own) nodes_[at].longest = static_cast<int32_t>(low);
            if (!tokens_[low].special) nodes_[at].longest_plain = static_cast<int32_t>(low);
        }
        while (low < high) {
            const auto byte_of = [length](const AddedToken& token) {
                return token.text[token.text.size() - 1 - length];
            };
            const char byte = byte_of(tokens_[low]);
            const uint32_t begin = low;
            while (low < high && byte_of(tokens_[low]) == byte) ++low;
            const auto child = static_cast<uint32_t>(nodes_.size());
            if (at == 0) last_[static_cast<uint8_t>(byte)] = child;
            nodes_.push_back({.shorter = at == 0 ? 0 : step(nodes_[at].shorter, byte), .byte = byte});
            ranges.push_back({begin, low});
        }
        const Node& shorter = nodes_[nodes_[at].shorter];
        if (nodes_[at].longest < 0) nodes_[at].longest = shorter.longest;
        if (nodes_[at].longest_plain < 0) nodes_[at].longest_plain = shorter.longest_plain;
    }
    nodes_.push_back({.first_child = static_cast<uint32_t>(nodes_.size())});
    nodes_.shrink_to_fit();
}

/// The node of the longest text that tokens end with and that begins with `byte` and what `node` stands for, or with
/// `byte` and a beginning of that.
uint32_t AddedTokens::step(uint32_t node, char byte) const {
    for (; node != 0; node = nodes_[node].shorter) {
        const auto begin = nodes_.begin() + nodes_[node].first_child,
                   end = nodes_.begin() + nodes_[node + 1].first_child;
        const auto child = std::lower_bound(begin, end, byte, [](const Node& a, char b) { return a.byte < b; });
        if (child != end && child->byte == byte) return static_cast<uint32_t>(child - nodes_.begin());
    }
    return last_[static_cast<uint8_t>(byte)];
}

std::vector<AddedTokens::Found> AddedTokens::find_all(std::string_view text, bool special,
                                                      const std::stop_token& stop) const {
    std::vector<Found> found;
    uint32_t node = 0;
    for (size_t at = text.size(); at-- > 0;) {
        if (at % bytes_apart == 0 && stop.stop_requested()) break;
        node = step(node, text[at]);
        const int32_t token = special ? nodes_[node].longest : nodes_[node].longest_plain;
        if (token >= 0) found.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(token)});
    }
    return found;
}

bool AddedTokens::has(int32_t id) const {
    return std::ranges::find(tokens_, id, &AddedToken::id) != tokens_.end();
}

size_t AddedTokens::spaces_taken_by(int32_t id, std::string_view text) const {
    const auto token = std::ranges::find(tokens_, id, &AddedToken::id);
    return token != tokens_.end() && token->takes_spaces_right ? skip_spaces_right(text, 0) : 0;
}

void AddedTokens::split(std::string_view text, bool special, const std::stop_token& stop,
                        std::vector<Segment>& segments) const {
    segments.clear();
    size_t done = 0, next = 0;  // what the segments hold; where a token may begin
    const std::vector<Found> found = tokens_.empty() ? std::vector<Found>() : find_all(text, special, stop);
    for (auto place = found.rbegin(); place != found.rend(); ++place) {
        if (place->begin < next) continue;
        const AddedToken& token = tokens_[place->token];
        size_t begin = place->begin, end = begin + token.text.size();
        next = end;
        if (token.single_word && is_inside_word(text, begin, end)) continue;
        if (token.takes_spaces_left) begin = skip_spaces_left(text, begin, done);
        if (token.takes_spaces_right) end = skip_spaces_right(text, end);
        if (begin > done) segments.push_back({done, begin, -1});
        segments.push_back({begin, end, token.id});
        done = next = end;
    }
    if (done < text.size()) segments.push_back({done, text.size(), -1});
}

}  // namespace rondo
