#include <numeric>

#include "model/attention/policies/round_selection/methods.hpp"

namespace rondo {

namespace {

/// A control: the last rounds, whatever the message looks at.
class RecentRounds final : public RoundSelection {
public:
    explicit RecentRounds(double share) : share_(share) {}

    std::vector<int32_t> choose(std::span<const double> masses) const override {
        std::vector<int32_t> rounds(rounds_of_share(masses.size(), share_));
        std::iota(rounds.begin(), rounds.end(), static_cast<int32_t>(masses.size() - rounds.size()));
        return rounds;
    }

private:
    double share_;
};

}  // namespace

std::unique_ptr<RoundSelection> make_recent_rounds(const RoundSettings& settings) {
    return std::make_unique<RecentRounds>(settings.share);
}

}  // namespace rondo
