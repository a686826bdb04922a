#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/eval/prompt_audit.hpp"
#include "config/result.hpp"
#include "config/settings.hpp"
#include "model/generator.hpp"

namespace rondo::cli::eval {

/// What stands before a key of a method for prompts, of one for answers, and of one for rounds.
inline constexpr std::string_view prompt_keys = "pipeline.prefill.attention.";
inline constexpr std::string_view answer_keys = "pipeline.decode.attention.";
inline constexpr std::string_view round_keys = "pipeline.rounds.";

/// A method as a list of methods names it: NAME or NAME@VARIANT (variants.hpp), then :KEY=VALUE any number of times.
/// Keys are those of pipeline.*.attention or pipeline.rounds, and three more. `method` is the prompts' method beside a
/// name for answers or for rounds.
/// `budget` is a percent in place of --budgets. `match=bytes` takes as many keys as cost the rival's bytes. Beside the
/// names that settings know there are `oracle` (the keys that hold the evidence) and `no_history` (the last message
/// alone).
struct Contestant {
    std::string label;  ///< as it was written
    PrefillAttention prefill;
    DecodeAttention decode;
    RoundSettings rounds = {};
    bool no_history = false;
    bool scaled = true;              ///< false: its budget is in keys, as settings say it
    std::optional<int> budget = {};  ///< percent
    /// In place of the method that `decode` names: one that is told where the evidence stands.
    std::function<std::unique_ptr<DecodeSelection>(const DecodeAttention&, const GoldKeys&)> selection = {};
    bool matches_bytes = false;  ///< in place of a share of the prompt: a step reads the bytes that the rival's does

    bool has_budget() const { return decode.method != DecodeAttention::Method::dense; }
    bool chooses_rounds() const { return rounds.method != RoundSettings::Method::none; }
};

/// `base` are settings (a.b=c) as the evaluation scales them to the model; the text's own win, and must have an effect.
Result<Contestant> parse_contestant(const std::string& text, std::vector<std::string> base);
/// "a,b:x=1,c".
Result<std::vector<Contestant>> parse_contestants(const std::string& list, const std::vector<std::string>& base);

/// The shares of a prompt, in percent, at which it runs where `budgets` are asked for: without a budget once.
std::vector<int> shares_of(const Contestant& contestant, const std::vector<int>& budgets);

/// The smallest budget that a contestant can keep to.
int least_keys(const Contestant& contestant);

/// What a contestant made of one prompt and answer.
struct Attempt {
    std::vector<int32_t> argmax;             ///< at each token of the answer
    std::vector<std::vector<float>> logits;  ///< likewise, when asked for
    std::vector<double> masses;              ///< of the decode steps, by layer and head
    size_t cold_masses = 0;                  ///< of them, the first ones, before any choice served
    double density = 1.0;                    ///< of the answer
    std::optional<double> prompt_density;    ///< where it is measured
    std::optional<double> line_overlap;      ///< see LineOverlap
    std::optional<double> prompt_mass, unsampled_mass, evidence_mass;  ///< see PromptAudit
    std::optional<double> bytes_resident;                              ///< likewise
    std::optional<double> round_mass;  ///< of the attention to earlier rounds, what the chosen ones drew
    double bytes_read = 0.0;           ///< of KV, by a step of the answer
};

/// A question as the model is asked it, and the answer that is right.
struct PromptedQuestion {
    std::vector<int32_t> prompt;
    std::vector<size_t> rounds;  ///< where in the prompt each message of the user's ends, with what opens the answer
    std::vector<int64_t> round_ends;  ///< where in it each answer ends
    std::vector<int32_t> answer;      ///< with the token that ends it
    GoldKeys gold;
};

/// What all contestants run on alike.
struct Machine {
    const Model& model;
    Device& device;
    DType kv_type = DType::bf16;
    int64_t chunk_tokens = 512;  ///< of prompts
};

/// A question's prompt, computed once with dense attention, and answered by any number of methods: token by token the
/// answer that is right is forced through.
class DensePrompt {
public:
    static Result<DensePrompt> create(const Machine& machine, const PromptedQuestion& question);
    /// By a contestant whose prompts are dense, with a budget of so many keys.
    Result<Attempt> answer(const Contestant& contestant, int budget);

private:
    DensePrompt(const PromptedQuestion& question, std::unique_ptr<Generator> generator)
        : question_(&question), generator_(std::move(generator)) {}

    const PromptedQuestion* question_;
    std::unique_ptr<Generator> generator_;
};

/// How many keys of all layers and heads have so many bytes; of less than none, less than none.
int keys_for(const Machine& machine, double bytes_read);

/// The same for a contestant that sees the prompt in its own way, round by round, as a conversation comes.
Result<Attempt> force(const Machine& machine, const Contestant& contestant, int budget,
                      const PromptedQuestion& question);
/// Measures which share of the attention the contestant's choices hold, and how much KV it keeps, in runs that take
/// longer than all else. An error where those runs answer otherwise than `attempt` did.
Status measure_choices(const Machine& machine, const Contestant& contestant, int budget,
                       const PromptedQuestion& question, Attempt& attempt);
/// Lets it answer by itself, greedily.
Result<std::vector<int32_t>> answer_freely(const Machine& machine, const Contestant& contestant, int budget,
                                           const PromptedQuestion& question, int64_t tokens_max);

}  // namespace rondo::cli::eval
