#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "model/format/byte_grammar.hpp"

namespace rondo {

/// A set of Unicode's characters: ranges, both ends included, in order and apart from each other.
class Characters {
public:
    using Range = std::pair<char32_t, char32_t>;

    Characters() = default;
    /// Of any ranges.
    explicit Characters(std::vector<Range> ranges);

    static Characters all();
    static Characters one(char32_t character) { return Characters({{character, character}}); }

    Characters operator|(const Characters& other) const;
    Characters operator&(const Characters& other) const { return (~(~*this | ~other)); }
    Characters operator~() const;
    bool operator==(const Characters&) const = default;
    /// The only one, where there is one only.
    std::optional<char32_t> single() const {
        const bool is_one = ranges_.size() == 1 && ranges_[0].first == ranges_[0].second;
        return is_one ? std::optional(ranges_[0].first) : std::nullopt;
    }
    bool empty() const { return ranges_.empty(); }
    bool has(char32_t character) const;

    /// One of them in UTF-8.
    ByteGrammar::Node utf8(ByteGrammar& grammar, ByteGrammar::Node next) const;

private:
    std::vector<Range> ranges_;
};

}  // namespace rondo
