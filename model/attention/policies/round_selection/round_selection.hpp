#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "config/settings.hpp"

namespace rondo {

/// Which of a conversation's earlier rounds stay. Plain logic without state.
class RoundSelection {
public:
    virtual ~RoundSelection() = default;
    /// The rounds that stay, ascending and at least one where there are any: of rounds that hold these shares of the
    /// attention to earlier rounds, the oldest first. The shares sum up to 1.
    virtual std::vector<int32_t> choose(std::span<const double> masses) const = 0;
};

/// By the name that settings call it; null for none. The settings have been checked.
std::unique_ptr<RoundSelection> make_round_selection(const RoundSettings& settings);

/// How many rounds a share of them is: rounded up, and at least one where there are any.
size_t rounds_of_share(size_t rounds, double share);
/// The round with the greatest mass; of equal ones the latest.
int32_t greatest_round(std::span<const double> masses);
/// The rounds whose mass is above a bound; where none is, the greatest.
std::vector<int32_t> rounds_above(std::span<const double> masses, double bound);

}  // namespace rondo
