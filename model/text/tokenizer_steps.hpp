#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/result.hpp"
#include "model/text/pretokenizer.hpp"
#include "model/text/tokenizer_bpe.hpp"
#include "model/text/tokenizer_normalizer.hpp"

/// The parts of tokenizer.json that are lists of steps. Each reader takes the value of one key, which may be null, and
/// says in its error which step it does not know.
namespace rondo {

/// GPT-2's own cut into words; ByteLevel does it where use_regex is on.
extern const char* const gpt2_words;

Status read_normalizer(const nlohmann::json* value, const std::string& where, Normalizer& out);
Status read_pretokenizer(const nlohmann::json* value, const std::string& where, PreTokenizer& out);
Status read_decoder(const nlohmann::json* value, const std::string& where, TokenDecoding& out);

/// Every step of a possibly nested Sequence in order, as objects with a "type". `children` is the key of Sequence's
/// list.
Result<std::vector<const nlohmann::json*>> flatten_steps(const nlohmann::json* value, const char* children,
                                                         const std::string& where);

}  // namespace rondo
