#pragma once

#include <string>
#include <variant>
#include <vector>

#include "config/result.hpp"
#include "model/text/tokenizer_pattern.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

/// What is done to a text before it is cut into pieces. Immutable after loading, safe to share between threads.
class Normalizer {
public:
    struct Prepend {
        std::string text;  ///< before every text that is not empty
    };
    struct Replace {
        TokenizerPattern pattern;
        std::string with;
    };
    struct Lowercase {};
    struct Strip {
        bool left, right;
    };
    using Step = std::variant<Prepend, Replace, Lowercase, Strip, unicode::Form>;

    void add(Step step);
    /// Needs valid UTF-8. `goes_on`: it is not a text's beginning, so nothing is put before it.
    Result<std::string> apply(std::string text, bool goes_on = false) const;

private:
    std::vector<Step> steps_;
};

}  // namespace rondo
