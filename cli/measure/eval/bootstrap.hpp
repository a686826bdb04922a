#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rondo::cli::eval {

inline constexpr int bootstrap_resamples = 2000;

struct Interval {
    double low = 0.0, high = 0.0;
};

/// A figure of one answer. All else says which, so that two methods' figures can be paired.
struct Observation {
    uint64_t dialogue = 0;
    size_t round = 0;
    double value = 0.0;
    size_t variant = 0;  ///< of the dialogue, where one seed stands for several
};

/// 0 of none.
double mean(std::span<const Observation> observations);

/// 95% bootstrap interval of the mean, by percentiles. Whole dialogues are drawn, with all their variants. Single
/// answers are not: answers of one dialogue share its facts and are no independent evidence. The same figures and seed
/// give the same interval, in whatever order they come.
Interval mean_interval(std::span<const Observation> observations, uint64_t seed);

/// a − b for each answer that both have. The interval of their mean is the paired one: what makes a dialogue hard for
/// both methods cancels.
std::vector<Observation> differences(std::span<const Observation> a, std::span<const Observation> b);

}  // namespace rondo::cli::eval
