#pragma once

#include <cstdint>

namespace rondo {

/// Tokens of prompts, and the seconds that computing them took.
struct ComputedTokens {
    double tokens = 0.0, seconds = 0.0;
    double depths = 0.0;  ///< how many tokens stood before each of them, added up

    void add(int64_t first, int64_t count) {
        tokens += static_cast<double>(count);
        depths += static_cast<double>(count) * (static_cast<double>(first) + static_cast<double>(count) / 2);
    }
    double seconds_per_token() const { return tokens > 0.0 ? seconds / tokens : 0.0; }
};

/// How long computing a prompt's tokens takes, learned from what was computed last. The further back attention looks,
/// the longer it takes: by a straight line, as flat as what is known of it is little.
class ComputeRate {
public:
    void learn(const ComputedTokens& computed);
    bool is_known() const { return weight_ > 0.0; }
    /// Of so many tokens from `first` on.
    double seconds(int64_t first, int64_t tokens) const;
    /// Of a token of any depth.
    double seconds_per_token() const { return is_known() ? rate_ / weight_ : 0.0; }

private:
    double slope() const;

    // Sums over what was computed, by tokens; what is old fades.
    double weight_ = 0.0, depth_ = 0.0, depth_squared_ = 0.0, rate_ = 0.0, rate_by_depth_ = 0.0;
};

}  // namespace rondo
