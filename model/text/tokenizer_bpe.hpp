#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/text/bpe.hpp"
#include "model/text/pretokenizer.hpp"
#include "model/text/tokenizer.hpp"
#include "model/text/tokenizer_added.hpp"
#include "model/text/tokenizer_normalizer.hpp"
#include "model/text/tokenizer_vocabulary.hpp"

namespace rondo {

/// How a token becomes bytes again.
struct TokenDecoding {
    bool byte_level = false;     ///< tokens are written in GPT-2's byte alphabet
    bool byte_fallback = false;  ///< "<0xXX>" is a byte
    bool strips_first_space = false;
    std::vector<std::pair<std::string, std::string>> replacements;  ///< what, with what; in order
};

/// The parts of a byte-pair tokenizer, whichever file they came from.
struct BpeParts {
    Vocabulary vocabulary;
    BpeMerges merges;
    AddedTokens added;             ///< looked for in the text as it comes
    AddedTokens added_normalized;  ///< looked for after the normalizer
    Normalizer normalizer;
    PreTokenizer pretokenizer;
    TokenDecoding decoding;
    bool ignores_merges = false;         ///< a word that is a token is not cut at all (Llama 3)
    bool byte_fallback = false;          ///< a character without a token becomes the tokens of its bytes
    bool fuses_unknown = false;          ///< unknown characters in a row are one unknown token
    int32_t unknown_id = -1;             ///< -1: unknown characters are left out, as Hugging Face does
    std::vector<int32_t> before, after;  ///< the template's tokens around a text
};

class BpeTokenizer final : public Tokenizer {
public:
    explicit BpeTokenizer(BpeParts parts);

    using Tokenizer::encode;
    Result<std::vector<int32_t>> encode(std::string_view text, bool special,
                                        const std::stop_token& stop) const override {
        return encode_behind(-1, text, special, stop);
    }
    Result<std::vector<int32_t>> encode_behind(int32_t before, std::string_view text, bool special,
                                               const std::stop_token& stop) const override;
    std::vector<int32_t> with_template_tokens(std::vector<int32_t> ids) const override;
    int64_t vocabulary() const override { return parts_.vocabulary.size(); }
    std::string bytes_of(int32_t id, bool special) const override;
    bool is_special(int32_t id) const override { return parts_.vocabulary.kind(id) == Vocabulary::Kind::special; }
    void take_as_text(int32_t special) override {
        if (is_special(special)) parts_.vocabulary.set_kind(special, Vocabulary::Kind::added);
    }
    int32_t find(std::string_view token) const override { return parts_.vocabulary.find(token); }
    bool strips_first_space() const override { return parts_.decoding.strips_first_space; }

private:
    struct Run;
    Status encode_all(std::string_view text, int32_t before, Run& run) const;
    Status encode_segment(std::string_view text, bool from_start, bool goes_on, Run& run) const;
    void encode_word(std::string_view word, Run& run) const;
    /// -1 when no token has this content or none that a user's words may become.
    int32_t producible(std::string_view content) const;
    int32_t id_of_character(std::string_view character) const;
    bool has_bytes_of(std::string_view character) const;

    BpeParts parts_;
    std::vector<int32_t> character_ids_;  // of the characters below U+10000
    std::array<int32_t, 256> byte_ids_;   // of "<0xXX>", -1 where there is none
};

}  // namespace rondo
