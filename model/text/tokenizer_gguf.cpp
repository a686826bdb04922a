#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/text/tokenizer_bpe.hpp"
#include "model/text/tokenizer_bytes.hpp"
#include "model/text/tokenizer_steps.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace {

using Kind = Vocabulary::Kind;

constexpr const char* spaces_as = "\u2581";

/// GGUF names a pre-tokenizer instead of writing it down; this is what the models' own tokenizer.json files say.
struct NamedPreTokenizer {
    std::initializer_list<const char*> names;
    std::initializer_list<const char*> cuts;  // one after the other, each within the pieces of the one before
    bool ignores_merges = false;
    bool composes = false;  // NFC first
};

const NamedPreTokenizer named_pretokenizers[] = {
    {{"gpt-2", "gpt2", "phi-2", "mpt", "olmo"}, {gpt2_words}},
    {{"llama-bpe", "llama3", "llama-v3"},
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
      R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     true},
    {{"qwen2", "deepseek-r1-qwen"},
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
      R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     false,
     true},
    {{"smollm", "starcoder", "command-r"}, {R"(\p{N})", gpt2_words}},
    {{"tekken"},
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
      R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     true},
    {{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"}},
    {{"default", ""}, {R"([\p{P}\$\+<=>\^~\|]+)", gpt2_words, R"(\p{N}+)", R"([0-9][0-9][0-9])"}},
};

Result<Kind> kind_of(int32_t type) {
    switch (type) {
        case 1:
            return Kind::normal;
        case 2:
        case 3:
            return Kind::special;
        case 4:
            return Kind::added;
        case 5:
            return Kind::unused;
        case 6:
            return Kind::byte;
        default:
            return make_error(ErrorCode::corrupt, "has type " + std::to_string(type) + "; types go from 1 to 6");
    }
}

Status read_vocabulary(const GgufVocabulary& gguf, BpeParts& parts) {
    const size_t count = gguf.tokens.size();
    if (count == 0 || count > static_cast<size_t>(limits::vocabulary_max))
        return make_error(ErrorCode::out_of_range, "vocabulary of " + std::to_string(count) +
                                                       " tokens; it must have 1 to " +
                                                       std::to_string(limits::vocabulary_max));
    if (!gguf.types.empty() && gguf.types.size() != count)
        return make_error(ErrorCode::corrupt,
                          std::to_string(gguf.types.size()) + " token types for " + std::to_string(count) + " tokens");
    for (size_t i = 0; i < count; ++i) {
        const std::string& content = gguf.tokens[i];
        const auto kind = kind_of(gguf.types.empty() ? 1 : gguf.types[i]);
        if (!kind) return make_error(ErrorCode::corrupt, "token " + std::to_string(i) + " " + kind.error().message);
        if (!unicode::is_valid(content))
            return make_error(ErrorCode::corrupt, "token " + std::to_string(i) + " is not valid UTF-8");
        RONDO_TRY(parts.vocabulary.add(static_cast<int64_t>(i), content, *kind));
        if (*kind != Kind::special && *kind != Kind::added) continue;
        if (content.size() > limits::added_token_bytes_max)
            return make_error(ErrorCode::out_of_range, "token " + std::to_string(i) + " has " +
                                                           std::to_string(content.size()) + " bytes, must be at most " +
                                                           std::to_string(limits::added_token_bytes_max));
        AddedToken token;
        token.text = content;
        token.id = static_cast<int32_t>(i);
        token.special = *kind == Kind::special;
        RONDO_TRY(parts.added.add(std::move(token)));
    }
    return Status::ok();
}

Status read_template(const GgufVocabulary& gguf, BpeParts& parts) {
    const std::pair<const char*, int32_t> named[] = {
        {"bos", gguf.bos_id}, {"eos", gguf.eos_id}, {"unknown", gguf.unknown_id}};
    for (const auto& [name, id] : named) {
        if (id != -1 && parts.vocabulary.kind(id) == Kind::absent)
            return make_error(ErrorCode::corrupt, std::string(name) + " token id " + std::to_string(id) +
                                                      " is outside the vocabulary of " +
                                                      std::to_string(parts.vocabulary.size()));
    }
    if ((gguf.add_bos && gguf.bos_id < 0) || (gguf.add_eos && gguf.eos_id < 0))
        return make_error(ErrorCode::corrupt, "a bos or eos token is to be added, but its id is missing");
    if (gguf.add_bos) parts.before = {gguf.bos_id};
    if (gguf.add_eos) parts.after = {gguf.eos_id};
    return Status::ok();
}

/// Whether merging may give this token.
bool may_result(Kind kind) {
    return kind == Kind::normal || kind == Kind::added;
}

Status read_merges(const GgufVocabulary& gguf, BpeParts& parts) {
    if (gguf.merges.size() > limits::merges_max)
        return make_error(ErrorCode::out_of_range, std::to_string(gguf.merges.size()) + " merges, must be at most " +
                                                       std::to_string(limits::merges_max));
    for (size_t i = 0; i < gguf.merges.size(); ++i) {
        const std::string& merge = gguf.merges[i];
        const size_t space = merge.find(' ', 1);
        if (space == std::string::npos)
            return make_error(ErrorCode::corrupt,
                              "merge " + std::to_string(i) + " must be two tokens with a space between");
        const std::string names[] = {merge.substr(0, space), merge.substr(space + 1),
                                     merge.substr(0, space) + merge.substr(space + 1)};
        int32_t ids[3];
        for (int n = 0; n < 3; ++n) {
            ids[n] = parts.vocabulary.find(names[n]);
            if (ids[n] < 0)
                return make_error(ErrorCode::corrupt, "merge " + std::to_string(i) + (n < 2 ? " names " : " makes ") +
                                                          in_quotes(names[n]) + ", which is not in the vocabulary");
        }
        // Of a pair that is listed again the first place counts, as in llama.cpp.
        if (may_result(parts.vocabulary.kind(ids[2])) && parts.merges.find(ids[0], ids[1]) == nullptr) {
            RONDO_TRY(parts.merges.add(ids[0], ids[1], {static_cast<uint32_t>(i), ids[2]}));
        }
    }
    return Status::ok();
}

Status read_byte_level(const GgufVocabulary& gguf, BpeParts& parts) {
    const NamedPreTokenizer* found = nullptr;
    for (const auto& candidate : named_pretokenizers)
        if (std::find(candidate.names.begin(), candidate.names.end(), gguf.pre) != candidate.names.end())
            found = &candidate;
    if (found == nullptr)
        return make_error(ErrorCode::unsupported,
                          "pre-tokenizer " + in_quotes(gguf.pre) +
                              " is not known; gpt-2, llama-bpe, qwen2, smollm, tekken, deepseek-coder "
                              "and default are");
    if (found->composes) parts.normalizer.add(unicode::Form::nfc);
    for (const char* cut : found->cuts) {
        RONDO_ASSIGN(TokenizerRegex regex, TokenizerRegex::compile(cut));
        parts.pretokenizer.add(
            PreTokenizer::Split{TokenizerPattern(std::move(regex)), PreTokenizer::Behavior::isolated});
    }
    parts.pretokenizer.add(PreTokenizer::BytesToCharacters{});
    parts.ignores_merges = found->ignores_merges;
    parts.decoding.byte_level = true;
    return read_merges(gguf, parts);
}

/// SentencePiece merges the neighbours whose token has the highest score; every cut of a token into two others is a
/// pair that makes it, and equal scores are equal ranks.
Status scored_merges(const GgufVocabulary& gguf, BpeParts& parts) {
    const Vocabulary& vocabulary = parts.vocabulary;
    std::vector<int32_t> by_score(gguf.tokens.size());
    std::iota(by_score.begin(), by_score.end(), 0);
    std::stable_sort(by_score.begin(), by_score.end(),
                     [&](int32_t a, int32_t b) { return gguf.scores[a] > gguf.scores[b]; });
    uint32_t rank = 0;
    for (size_t i = 0; i < by_score.size(); ++i) {
        const int32_t id = by_score[i];
        if (i > 0 && gguf.scores[id] != gguf.scores[by_score[i - 1]]) ++rank;
        const std::string_view content = vocabulary.content(id);
        if (!may_result(vocabulary.kind(id)) || vocabulary.find(content) != id) continue;
        if (content.size() > limits::scored_token_bytes_max)
            return make_error(ErrorCode::out_of_range, "token " + std::to_string(id) + " has " +
                                                           std::to_string(content.size()) + " bytes, must be at most " +
                                                           std::to_string(limits::scored_token_bytes_max));
        size_t cut = content.empty() ? 0 : unicode::length_of(content[0]);
        for (; cut < content.size(); cut += unicode::length_of(content[cut])) {
            const int32_t left = vocabulary.find(content.substr(0, cut)), right = vocabulary.find(content.substr(cut));
            if (may_result(vocabulary.kind(left)) && may_result(vocabulary.kind(right))) {
                RONDO_TRY(parts.merges.add(left, right, {rank, id}));
            }
        }
    }
    return Status::ok();
}

Status read_sentencepiece(const GgufVocabulary& gguf, BpeParts& parts) {
    if (gguf.scores.size() != gguf.tokens.size())
        return make_error(ErrorCode::corrupt, std::to_string(gguf.scores.size()) + " token scores for " +
                                                  std::to_string(gguf.tokens.size()) + " tokens");
    for (size_t i = 0; i < gguf.scores.size(); ++i)
        if (!std::isfinite(gguf.scores[i]))
            return make_error(ErrorCode::corrupt, "token " + std::to_string(i) + " has a score that is not a number");
    if (gguf.add_space_prefix) parts.normalizer.add(Normalizer::Prepend{spaces_as});
    parts.normalizer.add(Normalizer::Replace{TokenizerPattern(std::string(" ")), spaces_as});
    parts.byte_fallback = true;
    parts.fuses_unknown = true;
    parts.unknown_id = gguf.unknown_id;
    parts.decoding.byte_fallback = true;
    parts.decoding.strips_first_space = gguf.add_space_prefix;
    parts.decoding.replacements = {{spaces_as, " "}};
    return scored_merges(gguf, parts);
}

Result<BpeParts> read_parts(const GgufVocabulary& gguf) {
    BpeParts parts;
    if (gguf.model != "gpt2" && gguf.model != "llama")
        return make_error(ErrorCode::unsupported,
                          "model " + in_quotes(gguf.model) + " is not supported; gpt2 and llama are");
    RONDO_TRY(read_vocabulary(gguf, parts));
    RONDO_TRY(read_template(gguf, parts));
    RONDO_TRY(gguf.model == "gpt2" ? read_byte_level(gguf, parts) : read_sentencepiece(gguf, parts));
    return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufVocabulary& vocabulary, const std::string& where) {
    try {
        auto parts = read_parts(vocabulary);
        if (!parts) return make_error(parts.error().code, where + ": tokenizer: " + parts.error().message);
        return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(*parts)));
    } catch (const std::exception& e) {
        return make_error(ErrorCode::internal, where + ": tokenizer: " + in_quotes(e.what()));
    }
}

}  // namespace rondo
