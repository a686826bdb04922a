#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// Text ↔ token ids. Immutable once it is loaded, and safe to share between threads then.
class Tokenizer {
public:
    virtual ~Tokenizer() = default;

    /// `special`: whether added special tokens written in the text ("<|im_end|>") become their ids (a rendered chat
    /// template) or are treated as plain text (a user's own words). Text must be valid UTF-8 or it is an error.
    /// `stop` may be requested on another thread; the error is then ErrorCode::cancelled.
    virtual Result<std::vector<int32_t>> encode(std::string_view text, bool special,
                                                const std::stop_token& stop) const = 0;
    Result<std::vector<int32_t>> encode(std::string_view text, bool special) const { return encode(text, special, {}); }
    /// A text that goes on behind the token `before`.
    virtual Result<std::vector<int32_t>> encode_behind(int32_t before, std::string_view text, bool special,
                                                       const std::stop_token& stop) const = 0;
    /// Adds BOS/EOS as the model's post-processor says; off for rendered chat templates, which write their own.
    virtual std::vector<int32_t> with_template_tokens(std::vector<int32_t> ids) const = 0;

    virtual int64_t vocabulary() const = 0;  ///< ids are below this
    /// The bytes a token stands for; empty for an unknown id and, unless `special` is set, for special tokens.
    virtual std::string bytes_of(int32_t id, bool special) const = 0;
    virtual bool is_special(int32_t id) const = 0;
    /// What such a token stands for is part of every text from now on. Comes before threads share the tokenizer.
    virtual void take_as_text(int32_t special) = 0;
    /// The id of a token by its exact content, or -1.
    virtual int32_t find(std::string_view token) const = 0;
    /// Whether the decoder drops one leading space of a whole text (SentencePiece's dummy prefix).
    virtual bool strips_first_space() const = 0;

    std::string decode(std::span<const int32_t> ids, bool special = false) const;
};

/// Tokens that stand around a plain text: "" for none, nothing for those that tokenizer.json says.
struct AroundText {
    std::optional<std::string> before, after;
};

/// From tokenizer.json's text. `where` names the file in errors. `around` goes before the file's own post-processor,
/// where it has such tokens.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view json, const std::string& where,
                                                       const std::optional<AroundText>& around = {});

/// The fields of a GGUF file that describe its tokenizer.
struct GgufVocabulary {
    std::string model;  ///< "gpt2" (byte-level BPE) or "llama" (SentencePiece)
    std::string pre;    ///< name of the pre-tokenizer: "qwen2", "llama-bpe", "gpt-2", "default", …
    std::vector<std::string> tokens;
    std::vector<int32_t> types;  ///< 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
    std::vector<float> scores;
    std::vector<std::string> merges;
    int32_t bos_id = -1, eos_id = -1, unknown_id = -1;
    bool add_bos = false, add_eos = false, add_space_prefix = true;
};

Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufVocabulary& vocabulary, const std::string& where);

/// Turns ids into text as they come, never giving out half a UTF-8 character. Invalid bytes become U+FFFD once it is
/// sure that no continuation can come.
class Detokenizer {
public:
    /// `continues`: text that stands before the ids. A space before their first word is a part of the text then.
    explicit Detokenizer(const Tokenizer& tokenizer, bool special = false, bool continues = false)
        : tokenizer_(&tokenizer), special_(special), first_(!continues) {}
    /// The text that became certain with this token (possibly empty).
    std::string push(int32_t id);
    /// What is left at the end, incomplete characters replaced.
    std::string finish();

private:
    const Tokenizer* tokenizer_;
    bool special_;
    bool first_;
    std::string pending_;
};

}  // namespace rondo
