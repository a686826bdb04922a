#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// How the next token is chosen. Defaults are greedy.
struct SamplingParams {
    float temperature = 0.0F;          ///< 0: greedy
    int top_k = 0;                     ///< 0: off
    float top_p = 1.0F;
    float min_p = 0.0F;
    float repetition_penalty = 1.0F;   ///< divides positive / multiplies negative logits of tokens in prompt and answer
    float presence_penalty = 0.0F;     ///< of tokens in the answer
    float frequency_penalty = 0.0F;
    std::vector<std::pair<int32_t, float>> logit_bias;
    uint64_t seed = 0;
    int logprobs = -1;                 ///< -1: none; n: of the chosen token and the n likeliest

    /// Every field in its range, biased ids inside the vocabulary; else an error that names field and range.
    Status check(int64_t vocabulary) const;
};

struct TokenLogprob {
    int32_t id;
    float logprob;
};

struct Sampled {
    int32_t id = -1;
    float logprob = 0.0F;                    ///< of `id`, when asked for; under the distribution before temperature and cuts
    std::span<const TokenLogprob> top;       ///< likeliest first; valid until the next call
};

/// Chooses tokens of one sequence: same seed and same logits, same tokens. Owns scratch sized at construction, so
/// `next` allocates nothing. Not shared between threads.
class Sampler {
public:
    Sampler(SamplingParams params, int64_t vocabulary);
    /// Tokens already in the context (the prompt), for the repetition penalty.
    void observe_prompt(std::span<const int32_t> ids);
    /// Chooses from the logits (changed in place) and remembers the choice.
    Sampled next(std::span<float> logits);

private:
    SamplingParams params_;
    uint64_t random_state_;
    std::vector<int32_t> prompt_counts_, answer_counts_;  // by id; sized only when a penalty is on
    std::vector<std::pair<float, int32_t>> candidates_;
    std::vector<TokenLogprob> top_;
};

/// Cuts an answer's text at the first stop string, holding back what could still become one.
class StopStrings {
public:
    explicit StopStrings(std::vector<std::string> stops);
    /// Text that is now safe to give out; sets `stopped` when a stop string was completed (its own text is not given out).
    std::string push(std::string_view text, bool& stopped);
    /// What was held back, when the answer ends for another reason.
    std::string finish();

private:
    std::vector<std::string> stops_;
    std::string held_;
};

}  // namespace rondo
