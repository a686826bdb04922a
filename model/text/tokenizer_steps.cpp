#include "model/text/tokenizer_steps.hpp"

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/strict_json.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

const char* const gpt2_words = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using Json = nlohmann::json;
using Nulls = JsonFields::Nulls;
using Behavior = PreTokenizer::Behavior;

Error unsupported(const std::string& where, const std::string& type) {
    return make_error(ErrorCode::unsupported, where + ": type " + in_quotes(type) + " is not supported");
}

Status flatten(const Json& value, const char* children, const std::string& where, std::vector<const Json*>& out) {
    if (!value.is_object()) return make_error(ErrorCode::corrupt, where + " must be an object with a type, or null");
    const JsonFields fields(value, where, "", Nulls::refused);
    RONDO_ASSIGN(const std::string type, fields.text("type", ""));
    if (type != "Sequence") {
        if (out.size() >= limits::tokenizer_steps_max)
            return make_error(ErrorCode::out_of_range,
                              where + " has more than " + std::to_string(limits::tokenizer_steps_max) +
                                  " steps, must be at most " + std::to_string(limits::tokenizer_steps_max));
        out.push_back(&value);
        return Status::ok();
    }
    const Json* list = fields.find(children);
    if (list == nullptr || !list->is_array()) return fields.wrong(children, "a list");
    for (const Json& child : *list) RONDO_TRY(flatten(child, children, where, out));
    return Status::ok();
}

Result<std::string> text_of(const JsonFields& fields, const char* key) {
    if (fields.find(key) == nullptr) return fields.wrong(key, "a string");
    return fields.text(key, "");
}

/// {"String": "…"} or {"Regex": "…"}
Result<TokenizerPattern> pattern_of(const JsonFields& fields, const std::string& where) {
    const Json* value = fields.find("pattern");
    if (value == nullptr || !value->is_object()) return fields.wrong("pattern", "{\"String\": …} or {\"Regex\": …}");
    const JsonFields inner(*value, where, "pattern.");
    if (inner.find("Regex") == nullptr) {
        RONDO_ASSIGN(std::string literal, text_of(inner, "String"));
        if (literal.empty()) return inner.wrong("String", "a string that is not empty");
        return TokenizerPattern(std::move(literal));
    }
    RONDO_ASSIGN(const std::string source, text_of(inner, "Regex"));
    auto regex = TokenizerRegex::compile(source);
    if (!regex) return make_error(regex.error().code, where + ": " + regex.error().message);
    return TokenizerPattern(std::move(*regex));
}

Result<Behavior> behavior_of(const JsonFields& fields, const char* fallback) {
    RONDO_ASSIGN(const std::string name, fields.text("behavior", fallback));
    if (name == "Removed") return Behavior::removed;
    if (name == "Isolated") return Behavior::isolated;
    if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
    if (name == "MergedWithNext") return Behavior::merged_with_next;
    if (name == "Contiguous") return Behavior::contiguous;
    return fields.wrong("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

Status add_normalizer(const JsonFields& fields, const std::string& type, const std::string& where, Normalizer& out) {
    if (type == "NFC") {
        out.add(unicode::Form::nfc);
    } else if (type == "NFD") {
        out.add(unicode::Form::nfd);
    } else if (type == "NFKC") {
        out.add(unicode::Form::nfkc);
    } else if (type == "NFKD") {
        out.add(unicode::Form::nfkd);
    } else if (type == "Lowercase") {
        out.add(Normalizer::Lowercase{});
    } else if (type == "Prepend") {
        RONDO_ASSIGN(std::string text, text_of(fields, "prepend"));
        out.add(Normalizer::Prepend{std::move(text)});
    } else if (type == "Replace") {
        RONDO_ASSIGN(TokenizerPattern pattern, pattern_of(fields, where));
        RONDO_ASSIGN(std::string with, text_of(fields, "content"));
        out.add(Normalizer::Replace{std::move(pattern), std::move(with)});
    } else if (type == "Strip") {
        RONDO_ASSIGN(const bool left, fields.boolean("strip_left", true));
        RONDO_ASSIGN(const bool right, fields.boolean("strip_right", true));
        out.add(Normalizer::Strip{left, right});
    } else {
        return unsupported(where, type);
    }
    return Status::ok();
}

Status add_byte_level(const JsonFields& fields, PreTokenizer& out) {
    RONDO_ASSIGN(const bool prefix, fields.boolean("add_prefix_space", true));
    RONDO_ASSIGN(const bool cuts, fields.boolean("use_regex", true));
    if (prefix) out.add(PreTokenizer::Prefix{" "});
    if (cuts) {
        RONDO_ASSIGN(TokenizerRegex words, TokenizerRegex::compile(gpt2_words));
        out.add(PreTokenizer::Split{TokenizerPattern(std::move(words)), Behavior::isolated});
    }
    out.add(PreTokenizer::BytesToCharacters{});
    return Status::ok();
}

/// Metaspace's own, which Hugging Face reads as absent where they are null.
Result<bool> boolean_or_null(const JsonFields& fields, const char* key, bool fallback) {
    return fields.find(key) == nullptr ? Result<bool>(fallback) : fields.boolean(key, fallback);
}

/// Whether and where Metaspace puts its character before a text: "always", "first", "never".
Result<std::string> prepend_scheme(const JsonFields& fields) {
    // Files from before 2023 have add_prefix_space instead.
    RONDO_ASSIGN(const bool legacy, boolean_or_null(fields, "add_prefix_space", true));
    RONDO_ASSIGN(std::string scheme, fields.text("prepend_scheme", legacy ? "always" : "never"));
    if (scheme != "always" && scheme != "first" && scheme != "never")
        return fields.wrong("prepend_scheme", "always, first or never");
    if (!legacy && scheme != "never") return fields.wrong("prepend_scheme", "never where add_prefix_space is false");
    return scheme;
}

Result<std::string> metaspace_character(const JsonFields& fields) {
    RONDO_ASSIGN(std::string character, fields.text("replacement", "\u2581"));
    if (!unicode::is_one_character(character)) return fields.wrong("replacement", "one character");
    return character;
}

Status add_metaspace(const JsonFields& fields, PreTokenizer& out) {
    RONDO_ASSIGN(const std::string character, metaspace_character(fields));
    RONDO_ASSIGN(const std::string scheme, prepend_scheme(fields));
    RONDO_ASSIGN(const bool cuts, boolean_or_null(fields, "split", true));
    out.add(PreTokenizer::ReplaceSpaces{character});
    if (scheme != "never") out.add(PreTokenizer::Prefix{character, scheme == "first"});
    if (cuts) out.add(PreTokenizer::Split{TokenizerPattern(character), Behavior::merged_with_next});
    return Status::ok();
}

Status add_pretokenizer(const JsonFields& fields, const std::string& type, const std::string& where,
                        PreTokenizer& out) {
    if (type == "Split") {
        RONDO_ASSIGN(TokenizerPattern pattern, pattern_of(fields, where));
        RONDO_ASSIGN(const Behavior behavior, behavior_of(fields, ""));
        RONDO_ASSIGN(const bool invert, fields.boolean("invert", false));
        out.add(PreTokenizer::Split{std::move(pattern), behavior, invert});
    } else if (type == "ByteLevel") {
        return add_byte_level(fields, out);
    } else if (type == "Metaspace") {
        return add_metaspace(fields, out);
    } else if (type == "Digits") {
        RONDO_ASSIGN(const bool each, fields.boolean("individual_digits", false));
        out.add(PreTokenizer::Split{TokenizerPattern(unicode::is_numeric),
                                    each ? Behavior::isolated : Behavior::contiguous});
    } else if (type == "Punctuation") {
        RONDO_ASSIGN(const Behavior behavior, behavior_of(fields, "Isolated"));
        out.add(PreTokenizer::Split{TokenizerPattern(unicode::is_punctuation), behavior});
    } else if (type == "WhitespaceSplit") {
        out.add(PreTokenizer::Split{TokenizerPattern(unicode::is_whitespace), Behavior::removed});
    } else {
        return unsupported(where, type);
    }
    return Status::ok();
}

/// Reads a chain of decoders: what it does to each token, and at the beginning of the whole text.
class DecoderChain {
public:
    explicit DecoderChain(TokenDecoding& out) : out_(&out) {}

    Status add(const JsonFields& fields, const std::string& type, const std::string& where) {
        if (out_->byte_level && type != "Fuse")
            return make_error(ErrorCode::unsupported,
                              where + ": " + in_quotes(type) + " after ByteLevel is not supported");
        if (type == "Strip") return strip(fields, where);
        if (fused_)
            return make_error(ErrorCode::unsupported, where + ": " + in_quotes(type) + " after Fuse is not supported");
        if (type == "Fuse") {
            fused_ = true;
        } else if (type == "ByteFallback") {
            out_->byte_fallback = true;
        } else if (type == "ByteLevel") {
            if (!out_->replacements.empty() || out_->byte_fallback)
                return make_error(ErrorCode::unsupported, where + ": ByteLevel after other decoders is not supported");
            out_->byte_level = true;
        } else if (type == "Replace") {
            return replace(fields, where);
        } else if (type == "Metaspace") {
            RONDO_ASSIGN(const std::string character, metaspace_character(fields));
            RONDO_ASSIGN(const std::string scheme, prepend_scheme(fields));
            out_->replacements.emplace_back(character, " ");
            out_->strips_first_space = scheme != "never";
        } else {
            return unsupported(where, type);
        }
        return Status::ok();
    }

private:
    Status replace(const JsonFields& fields, const std::string& where) {
        const Json* pattern = fields.find("pattern");
        if (pattern == nullptr || !pattern->is_object()) return fields.wrong("pattern", "{\"String\": …}");
        const JsonFields inner(*pattern, where, "pattern.");
        RONDO_ASSIGN(std::string what, text_of(inner, "String"));
        if (what.empty()) return inner.wrong("String", "a string that is not empty");
        RONDO_ASSIGN(std::string with, text_of(fields, "content"));
        // Else a few steps could make a token larger than any memory.
        if (with.size() > what.size()) return fields.wrong("content", "no longer than the pattern");
        out_->replacements.emplace_back(std::move(what), std::move(with));
        return Status::ok();
    }

    Status strip(const JsonFields& fields, const std::string& where) {
        RONDO_ASSIGN(const std::string content, text_of(fields, "content"));
        RONDO_ASSIGN(const int64_t start, fields.integer("start", 0, INT32_MAX));
        RONDO_ASSIGN(const int64_t stop, fields.integer("stop", 0, INT32_MAX));
        if (content != " " || start > 1 || stop > 0 || !fused_)
            return make_error(ErrorCode::unsupported,
                              where + ": Strip is supported for one leading space (start 1, stop 0) after Fuse");
        out_->strips_first_space = start == 1;
        return Status::ok();
    }

    TokenDecoding* out_;
    bool fused_ = false;
};

}  // namespace

Result<std::vector<const Json*>> flatten_steps(const Json* value, const char* children, const std::string& where) {
    std::vector<const Json*> steps;
    if (value != nullptr && !value->is_null()) RONDO_TRY(flatten(*value, children, where, steps));
    return steps;
}

Status read_normalizer(const Json* value, const std::string& where, Normalizer& out) {
    RONDO_ASSIGN(const auto steps, flatten_steps(value, "normalizers", where));
    for (const Json* step : steps) {
        const JsonFields fields(*step, where, "", Nulls::refused);
        RONDO_ASSIGN(const std::string type, fields.text("type", ""));
        RONDO_TRY(add_normalizer(fields, type, where, out));
    }
    return Status::ok();
}

Status read_pretokenizer(const Json* value, const std::string& where, PreTokenizer& out) {
    RONDO_ASSIGN(const auto steps, flatten_steps(value, "pretokenizers", where));
    for (const Json* step : steps) {
        const JsonFields fields(*step, where, "", Nulls::refused);
        RONDO_ASSIGN(const std::string type, fields.text("type", ""));
        RONDO_TRY(add_pretokenizer(fields, type, where, out));
    }
    return Status::ok();
}

Status read_decoder(const Json* value, const std::string& where, TokenDecoding& out) {
    RONDO_ASSIGN(const auto steps, flatten_steps(value, "decoders", where));
    if (steps.empty())
        return make_error(ErrorCode::unsupported, where + " is missing; without one words would run together");
    DecoderChain chain(out);
    for (const Json* step : steps) {
        const JsonFields fields(*step, where, "", Nulls::refused);
        RONDO_ASSIGN(const std::string type, fields.text("type", ""));
        RONDO_TRY(chain.add(fields, type, where));
    }
    return Status::ok();
}

}  // namespace rondo
