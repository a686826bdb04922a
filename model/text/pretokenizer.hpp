#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/result.hpp"
#include "model/text/tokenizer_pattern.hpp"

namespace rondo {

/// A text cut into pieces: piece i ends at ends[i], and the next one begins there. No piece is empty.
struct Pieces {
    std::string text;
    std::vector<size_t> ends;
    bool from_start = false;    ///< the first piece begins where the user's text does
    bool goes_on = false;       ///< the first piece goes on with a word that stands before it
    std::stop_token stop = {};  ///< whether anybody still wants the pieces
};

/// Cuts a text into the words within which tokens are merged. Immutable after loading, safe to share between threads.
class PreTokenizer {
public:
    /// What happens to the matches of a pattern.
    enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

    struct Split {
        TokenizerPattern pattern;
        Behavior behavior;
        bool invert = false;  ///< what lies between the matches is taken for the matches
    };
    struct Prefix {
        std::string text;  ///< before each piece that does not begin with it
        bool only_at_start = false;
    };
    struct ReplaceSpaces {
        std::string with;
    };
    struct BytesToCharacters {};  ///< GPT-2's byte alphabet
    using Step = std::variant<Split, Prefix, ReplaceSpaces, BytesToCharacters>;

    void add(Step step);
    Status run(Pieces& pieces) const;

private:
    std::vector<Step> steps_;
};

}  // namespace rondo
