#pragma once

namespace rondo {

/// The values that a number may have. False for NaN.
struct NumberRange {
    double low, high;
    bool low_included = true;

    constexpr bool holds(double value) const { return value <= high && (low_included ? value >= low : value > low); }
};

/// The range of each sampling parameter for requests, the command line and the engine: OpenAI's where it has one.
/// Bounds of token ids and counts depend on the model, or stand in limits.hpp.
namespace sampling_ranges {

inline constexpr NumberRange temperature{0.0, 2.0};
inline constexpr NumberRange top_p{0.0, 1.0, false};
inline constexpr NumberRange min_p{0.0, 1.0};
inline constexpr NumberRange repetition_penalty{0.125, 8.0};
inline constexpr NumberRange presence_penalty{-2.0, 2.0};
inline constexpr NumberRange frequency_penalty{-2.0, 2.0};
inline constexpr NumberRange logit_bias{-100.0, 100.0};

}  // namespace sampling_ranges

}  // namespace rondo
