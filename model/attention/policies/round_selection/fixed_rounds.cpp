#include "model/attention/policies/round_selection/methods.hpp"

namespace rondo {

namespace {

/// All rounds that draw more than a fixed share of the attention.
class FixedRounds final : public RoundSelection {
public:
    explicit FixedRounds(double mass_min) : mass_min_(mass_min) {}

    std::vector<int32_t> choose(std::span<const double> masses) const override {
        return rounds_above(masses, mass_min_);
    }

private:
    double mass_min_;
};

}  // namespace

std::unique_ptr<RoundSelection> make_fixed_rounds(const RoundSettings& settings) {
    return std::make_unique<FixedRounds>(settings.mass_min);
}

}  // namespace rondo
