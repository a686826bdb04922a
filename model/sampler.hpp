#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/logit_blocks.hpp"
#include "model/sampling_params.hpp"

namespace rondo {

struct Sampled {
    int32_t id = -1;
    float logprob = 0.0F;  ///< of `id`, when asked for; under the model's own distribution, before all of the above
    std::span<const TokenLogprob> top;  ///< likeliest first; valid until the next call
};

/// Chooses tokens of one sequence: same seed and same logits, same tokens. Owns scratch sized at construction, so
/// `next` allocates nothing. Not shared between threads.
///
/// Logits may be broken without harm: a NaN is never chosen, +Inf wins (the lowest id of several), and when nothing is
/// left but −Inf and NaN the answer is id 0.
class Sampler {
public:
    /// `params` as `check` allows them.
    Sampler(SamplingParams params, int64_t vocabulary);
    /// Tokens already in the context (the prompt), for the repetition penalty.
    void observe_prompt(std::span<const int32_t> ids);
    /// Chooses from the logits [vocabulary] (changed in place) and remembers the choice. `never` are ids of the
    /// vocabulary that are not chosen this time, as long as another one can be. `allowed` has a bit for each id that
    /// may be chosen; empty: all.
    Sampled next(std::span<float> logits, std::span<const int32_t> never = {}, std::span<const uint64_t> allowed = {});

private:
    /// A token of the context and how often the answer has it.
    struct Seen {
        int32_t id;
        int32_t in_answer;
    };

    Seen* remember(int32_t id);
    void note_logprobs(std::span<const float> logits);
    float logprob(float logit) const;
    void penalise(std::span<float> logits) const;
    int32_t draw(std::span<float> logits, float largest);
    double random();

    SamplingParams params_;
    uint64_t random_state_;
    LogitBlocks blocks_;
    std::vector<Seen> seen_;         // both empty when no penalty is on
    std::vector<int32_t> seen_at_;   // by id: where in seen_, or -1
    std::vector<float> raw_logits_;  // these three only when logprobs are asked for
    float raw_largest_ = 0.0F;
    double raw_log_mass_ = 0.0;  // log of the sum of exp(logit - raw_largest_)
    std::vector<TokenLogprob> top_;
};

}  // namespace rondo
