#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// How the next token is chosen. Defaults are greedy. Applied in this order: repetition penalty, presence and frequency
/// penalties, logit bias, temperature, top-k, top-p (of what top-k left), min-p (against the likeliest token).
struct SamplingParams {
    float temperature = 0.0F;         ///< 0: greedy
    int top_k = 0;                    ///< 0: off
    float top_p = 1.0F;               ///< the fewest likeliest tokens that hold this share; at least one
    float min_p = 0.0F;               ///< a token needs this share of the likeliest one's probability
    float repetition_penalty = 1.0F;  ///< divides positive / multiplies negative logits of tokens in prompt and answer
    float presence_penalty = 0.0F;    ///< of tokens in the answer
    float frequency_penalty = 0.0F;
    std::vector<std::pair<int32_t, float>> logit_bias = {};
    uint64_t seed = 0;
    int logprobs = -1;  ///< -1: none; n: of the chosen token and the n likeliest

    /// Every field in its range, biased ids inside the vocabulary; else an error that names field and range.
    Status check(int64_t vocabulary) const;
};

struct TokenLogprob {
    int32_t id;
    float logprob;
};

}  // namespace rondo
