#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// A half-open range of bytes in a text.
struct ByteRange {
    size_t begin, end;
};

/// Rewrites a pattern from Oniguruma's Ruby syntax, which tokenizer.json is written in, to PCRE2's. The two read the
/// same characters differently in places (\s, \w, \h, {1,3}+, (?m), inline options); what cannot be said in PCRE2 is an
/// error.
Result<std::string> pcre2_from_oniguruma(std::string_view pattern);

/// A compiled regular expression of a tokenizer. Immutable, safe to share between threads.
class TokenizerRegex {
public:
    /// `pattern` is in Oniguruma's Ruby syntax.
    static Result<TokenizerRegex> compile(std::string_view pattern);

    /// Finds matches for one thread; owns PCRE2's scratch memory, so one serves all pieces of a text. The processor
    /// time is bounded in proportion to `text_bytes`, so that a pattern that explodes is an error, not a hang; the same
    /// error comes when `stop` is requested.
    class Finder {
    public:
        Finder(const TokenizerRegex& regex, size_t text_bytes, const std::stop_token& stop = {});
        /// Replaces `matches` with all matches in `text` (valid UTF-8), in order and without overlaps. As in Rust, an
        /// empty match that touches the previous match is none.
        Status find_all(std::string_view text, std::vector<ByteRange>& matches);

    private:
        struct Scratch;
        Result<bool> match_at(std::string_view text, size_t start, ByteRange& match);
        int run_window(std::string_view text, size_t start, size_t window_end, size_t starts_end) const;
        int run_watched(std::string_view text, size_t start, size_t starts_end) const;

        const TokenizerRegex* regex_;
        std::shared_ptr<Scratch> scratch_;
    };

private:
    struct Code;
    std::shared_ptr<const Code> code_;
};

}  // namespace rondo
