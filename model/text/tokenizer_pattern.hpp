#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/result.hpp"
#include "model/text/tokenizer_regex.hpp"

namespace rondo {

/// What a tokenizer looks for in a text: a regex, a fixed string, or characters of a class.
class TokenizerPattern {
public:
    using CharacterClass = bool (*)(char32_t);

    explicit TokenizerPattern(TokenizerRegex regex) : what_(std::move(regex)) {}
    explicit TokenizerPattern(std::string literal) : what_(std::move(literal)) {}
    explicit TokenizerPattern(CharacterClass members) : what_(members) {}

    /// For one thread; one serves all pieces of a text of `text_bytes`.
    class Finder {
    public:
        Finder(const TokenizerPattern& pattern, size_t text_bytes, const std::stop_token& stop = {});
        /// Replaces `matches` with all matches, in order and without overlaps. An empty string matches nothing.
        Status find_all(std::string_view text, std::vector<ByteRange>& matches);

    private:
        const TokenizerPattern* pattern_;
        std::optional<TokenizerRegex::Finder> regex_;
    };

private:
    std::variant<TokenizerRegex, std::string, CharacterClass> what_;
};

}  // namespace rondo
