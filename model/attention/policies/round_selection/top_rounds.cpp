#include <algorithm>
#include <numeric>

#include "model/attention/policies/round_selection/methods.hpp"

namespace rondo {

namespace {

/// A share of the rounds, at least one: those with the greatest masses; of equal ones the latest.
class TopRounds final : public RoundSelection {
public:
    explicit TopRounds(double share) : share_(share) {}

    std::vector<int32_t> choose(std::span<const double> masses) const override {
        std::vector<int32_t> rounds(masses.size());
        std::iota(rounds.begin(), rounds.end(), 0);
        std::ranges::sort(rounds, [&](int32_t a, int32_t b) {
            const double of_a = masses[static_cast<size_t>(a)], of_b = masses[static_cast<size_t>(b)];
            return of_a > of_b || (of_a == of_b && a > b);
        });
        rounds.resize(rounds_of_share(rounds.size(), share_));
        std::ranges::sort(rounds);
        return rounds;
    }

private:
    double share_;
};

}  // namespace

std::unique_ptr<RoundSelection> make_top_rounds(const RoundSettings& settings) {
    return std::make_unique<TopRounds>(settings.share);
}

}  // namespace rondo
