#include <cmath>

#include "model/attention/policies/round_selection/methods.hpp"

namespace rondo {

namespace {

/// All rounds that draw so many standard deviations more than the mean.
class AdaptiveRounds final : public RoundSelection {
public:
    explicit AdaptiveRounds(int deviations) : deviations_(deviations) {}

    std::vector<int32_t> choose(std::span<const double> masses) const override {
        if (masses.empty()) return {};
        const auto count = static_cast<double>(masses.size());
        double mean = 0.0, squares = 0.0;
        for (const double mass : masses) mean += mass / count;
        for (const double mass : masses) squares += (mass - mean) * (mass - mean) / count;
        return rounds_above(masses, mean + deviations_ * std::sqrt(squares));
    }

private:
    int deviations_;
};

}  // namespace

std::unique_ptr<RoundSelection> make_adaptive_rounds(const RoundSettings& settings) {
    return std::make_unique<AdaptiveRounds>(settings.deviations);
}

}  // namespace rondo
