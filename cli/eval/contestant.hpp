#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/eval/prompt_audit.hpp"
#include "config/result.hpp"
#include "config/settings.hpp"
#include "model/generator.hpp"

namespace rondo::cli::eval {

/// Before a key that a method for prompts or for answers has.
inline constexpr std::string_view prompt_keys = "pipeline.prefill.attention.";
inline constexpr std::string_view answer_keys = "pipeline.decode.attention.";

/// A method as a list of methods names it: NAME or NAME:KEY=VALUE:KEY=VALUE, keys of pipeline.*.attention; `method` is
/// the prompts', beside a name for answers. Beside the names that settings know there are `oracle` (the keys that hold
/// the evidence) and `no_history` (the last message alone).
struct Contestant {
    std::string label;  ///< as it was written
    PrefillAttention prefill;
    DecodeAttention decode;
    bool no_history = false;

    bool is_oracle() const { return decode.method == DecodeAttention::Method::oracle; }
    bool has_budget() const { return decode.method != DecodeAttention::Method::dense; }
};

/// `base` are settings (a.b=c) as the evaluation scales them to the model; the text's own win, and must have an effect.
Result<Contestant> parse_contestant(const std::string& text, std::vector<std::string> base);
/// "a,b:x=1,c".
Result<std::vector<Contestant>> parse_contestants(const std::string& list, const std::vector<std::string>& base);

/// What a contestant made of one prompt and answer.
struct Attempt {
    std::vector<int32_t> argmax;             ///< at each token of the answer
    std::vector<std::vector<float>> logits;  ///< likewise, when asked for
    std::vector<double> masses;              ///< of the decode steps, by layer and head
    double density = 1.0;                    ///< of the answer
    double prompt_density = 1.0;
    std::optional<double> line_overlap;                                ///< see LineOverlap
    std::optional<double> prompt_mass, unsampled_mass, evidence_mass;  ///< see PromptAudit
    double bytes_resident = 0.0;
};

/// A question as the model is asked it, and the answer that is right.
struct PromptedQuestion {
    std::vector<int32_t> prompt;
    std::vector<size_t> rounds;   ///< where in the prompt each message of the user's ends, with what opens the answer
    std::vector<int32_t> answer;  ///< with the token that ends it
    GoldKeys gold;
};

/// What all contestants run on alike.
struct Machine {
    const Model& model;
    Device& device;
    DType kv_type = DType::bf16;
    int64_t chunk_tokens = 512;  ///< of prompts
};

/// Sees the prompt round by round, as a conversation comes, then forces the answer through, token by token; with a
/// budget of this many keys.
Result<Attempt> force(const Machine& machine, const Contestant& contestant, int budget,
                      const PromptedQuestion& question);
/// Lets it answer by itself, greedily.
Result<std::vector<int32_t>> answer_freely(const Machine& machine, const Contestant& contestant, int budget,
                                           const PromptedQuestion& question, int64_t tokens_max);

}  // namespace rondo::cli::eval
