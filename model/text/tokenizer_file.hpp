#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "model/text/tokenizer_vocabulary.hpp"

namespace rondo {

/// The merges of a tokenizer as text, in order of rank.
struct MergeTexts {
    struct Pair {
        uint32_t begin, cut, end;  ///< left is text[begin, cut), right is text[cut, end)
    };
    std::string text;
    std::vector<Pair> pairs;

    std::string_view left(const Pair& pair) const { return {text.data() + pair.begin, pair.cut - pair.begin}; }
    std::string_view right(const Pair& pair) const { return {text.data() + pair.cut, pair.end - pair.cut}; }
    std::string_view both(const Pair& pair) const { return {text.data() + pair.begin, pair.end - pair.begin}; }
};

/// A tokenizer.json, read but not yet understood. Its two long parts go straight into flat memory, past the JSON tree,
/// which would take most of the loading time of a large vocabulary.
struct TokenizerFile {
    Vocabulary vocabulary;  ///< model.vocab, every token normal
    MergeTexts merges;      ///< model.merges
    nlohmann::json tree;    ///< all the rest
};

Result<TokenizerFile> read_tokenizer_file(std::string_view json, const std::string& where);

}  // namespace rondo
