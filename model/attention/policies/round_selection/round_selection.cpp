#include "model/attention/policies/round_selection/round_selection.hpp"

#include <algorithm>
#include <cmath>

namespace rondo {

size_t rounds_of_share(size_t rounds, double share) {
    constexpr double rounding = 1e-9;  // a tenth of ten rounds is one
    const auto wanted = static_cast<size_t>(std::ceil(share * static_cast<double>(rounds) - rounding));
    return std::min(rounds, std::max<size_t>(wanted, 1));
}

int32_t greatest_round(std::span<const double> masses) {
    size_t greatest = 0;
    for (size_t round = 1; round < masses.size(); ++round)
        if (masses[round] >= masses[greatest]) greatest = round;
    return static_cast<int32_t>(greatest);
}

std::vector<int32_t> rounds_above(std::span<const double> masses, double bound) {
    std::vector<int32_t> rounds;
    for (size_t round = 0; round < masses.size(); ++round)
        if (masses[round] > bound) rounds.push_back(static_cast<int32_t>(round));
    if (rounds.empty() && !masses.empty()) rounds.push_back(greatest_round(masses));
    return rounds;
}

}  // namespace rondo
