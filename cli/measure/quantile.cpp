#include "cli/measure/quantile.hpp"

#include <algorithm>

namespace rondo::cli {

double quantile(std::span<const double> sorted, double share) {
    if (sorted.empty()) return 0.0;
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

}  // namespace rondo::cli
