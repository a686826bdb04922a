#include "actors/compute_rate.hpp"

#include <algorithm>
#include <cmath>

namespace rondo {

namespace {

constexpr double remembered = 8192.0;  // tokens, after which what was learned counts half
constexpr double spread_min = 512.0;   // of depths: where it is less, little is known of a slope
constexpr double at_begin_min = 0.25;  // of the mean rate: no token takes less

}  // namespace

void ComputeRate::learn(const ComputedTokens& computed) {
    if (computed.tokens <= 0.0 || computed.seconds <= 0.0) return;
    const double fades = std::exp2(-computed.tokens / remembered);
    const double depth = computed.depths / computed.tokens, rate = computed.seconds_per_token();
    const auto add = [&](double& sum, double value) { sum = fades * sum + computed.tokens * value; };
    add(weight_, 1.0);
    add(depth_, depth);
    add(depth_squared_, depth * depth);
    add(rate_, rate);
    add(rate_by_depth_, rate * depth);
}

double ComputeRate::slope() const {
    const double depth = depth_ / weight_, rate = rate_ / weight_;
    const double variance = depth_squared_ / weight_ - depth * depth;
    const double covariance = rate_by_depth_ / weight_ - rate * depth;
    return std::clamp(covariance / (variance + spread_min * spread_min), 0.0,
                      (1.0 - at_begin_min) * rate / std::max(depth, 1.0));
}

double ComputeRate::seconds(int64_t first, int64_t tokens) const {
    if (!is_known()) return 0.0;
    const double middle = static_cast<double>(first) + static_cast<double>(tokens) / 2;
    return static_cast<double>(tokens) * (seconds_per_token() + slope() * (middle - depth_ / weight_));
}

}  // namespace rondo
