#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace rondo {

/// A token id and its logit or weight.
struct Candidate {
    float value;
    int32_t id;
};

/// Where a ranking by value (equal values: lower id first) is cut: this candidate is the last that stays.
struct Cut {
    float value = -std::numeric_limits<float>::infinity();
    int32_t id = std::numeric_limits<int32_t>::max();

    bool keeps(float other, int32_t other_id) const { return other > value || (other == value && other_id <= id); }
};

/// The scans over a vocabulary of logits that sampling needs. The values are seen in blocks of 64 whose maxima are
/// kept: all but the first scan visit only blocks that can matter. Nothing is ever sorted whole. A draw walks ids in
/// order and the exponential is written here: results depend on neither the C library nor a sort's order. Scratch is
/// sized at construction.
class LogitBlocks {
public:
    LogitBlocks(int64_t vocabulary, bool ranks);

    /// Notes the blocks' maxima and returns the largest value; NaN counts as absent, −Inf when nothing else is there.
    float scan(std::span<const float> logits);
    /// The lowest id with the largest value of the last scan; 0 when that is −Inf.
    int32_t argmax(std::span<const float> logits, float largest) const;
    /// The `count` ≥ 1 largest of the logits last scanned (fewer if NaNs leave fewer), in no order but for the last,
    /// which ranks lowest. Valid until the next call of anything.
    std::span<Candidate> top(std::span<const float> logits, size_t count);
    /// Sum of exp(logit − largest). Leaves the logits and the maxima alone.
    double mass(std::span<const float> logits, float largest) const;

    /// Turns the scanned logits into weights exp((logit − largest) / temperature), 0 beyond the cut, in place.
    void weigh(std::span<float> logits, float largest, float temperature, const Cut& cut);
    /// Where the likeliest weights together reach the share `top_p` of all.
    Cut nucleus(std::span<const float> weights, float top_p);
    /// Zeroes the weights beyond the cut.
    void keep(std::span<float> weights, const Cut& cut);
    /// The token that `at` in [0, 1) falls on when the weights are laid end to end in order of id.
    int32_t pick(std::span<const float> weights, double at) const;

private:
    void gather(std::span<const float> values, float least);
    double total() const;

    std::vector<float> maxima_;  // by block; of weights once they are made, 0 for blocks without any
    std::vector<float>
        masses_;  // by block: sum of weights. A block of mass 0 may still hold logits: it is never read again
    std::vector<Candidate> candidates_;
};

}  // namespace rondo
