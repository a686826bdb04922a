#include "cli/measure/eval/bootstrap.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/measure/quantile.hpp"
#include "config/mix_bits.hpp"

namespace rondo::cli::eval {

namespace {

/// SplitMix64: a report takes billions of draws, and these are the cheapest that serve.
class IndexDraws {
public:
    explicit IndexDraws(uint64_t seed) : state_(seed) {}

    /// From 0 to below `bound`, which is below 2^32; the bias of scaling is below bound / 2^32.
    size_t below(size_t bound) { return static_cast<size_t>(((mix_bits(state_ += mix_step) >> 32) * bound) >> 32); }

private:
    uint64_t state_;
};

}  // namespace

double mean(std::span<const Observation> observations) {
    if (observations.empty()) return 0.0;
    double sum = 0.0;
    for (const Observation& each : observations) sum += each.value;
    return sum / static_cast<double>(observations.size());
}

Interval mean_interval(std::span<const Observation> observations, uint64_t seed) {
    struct Dialogue {
        double sum = 0.0, count = 0.0;
    };
    std::map<uint64_t, Dialogue> by_seed;
    for (const Observation& each : observations) {
        by_seed[each.dialogue].sum += each.value;
        by_seed[each.dialogue].count += 1.0;
    }
    if (by_seed.empty()) return {};
    std::vector<Dialogue> dialogues;
    for (const auto& [dialogue, sums] : by_seed) dialogues.push_back(sums);

    IndexDraws draws(seed);
    std::vector<double> means;
    for (int resample = 0; resample < bootstrap_resamples; ++resample) {
        Dialogue total;
        for (size_t i = 0; i < dialogues.size(); ++i) {
            const Dialogue& drawn = dialogues[draws.below(dialogues.size())];
            total.sum += drawn.sum;
            total.count += drawn.count;
        }
        means.push_back(total.sum / total.count);
    }
    std::ranges::sort(means);
    return {quantile(means, 0.025), quantile(means, 0.975)};
}

std::vector<Observation> differences(std::span<const Observation> a, std::span<const Observation> b) {
    const auto which = [](const Observation& each) { return std::tuple(each.dialogue, each.variant, each.round); };
    std::map<std::tuple<uint64_t, size_t, size_t>, double> others;
    for (const Observation& each : b) others[which(each)] = each.value;
    std::vector<Observation> out;
    for (Observation each : a) {
        const auto other = others.find(which(each));
        if (other == others.end()) continue;
        each.value -= other->second;
        out.push_back(each);
    }
    return out;
}

}  // namespace rondo::cli::eval
