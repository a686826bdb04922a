#include "cli/measure/attention/round_figures.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rondo::cli::attention {

namespace {

constexpr double epsilon = 1e-6;

double sum_of(std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

/// By value: 0 for the least; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
    std::vector<double> ranks(values.size());
    for (size_t first = 0; first < order.size();) {
        size_t end = first + 1;
        while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
        for (size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2.0;
        first = end;
    }
    return ranks;
}

}  // namespace

std::vector<size_t> top_rounds(std::span<const double> masses) {
    std::vector<size_t> order(masses.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return masses[i]; });
    order.resize(tenth_of(masses.size()));
    return order;
}

double top_share(std::span<const double> masses) {
    double top = 0.0;
    for (const size_t round : top_rounds(masses)) top += masses[round];
    const double all = sum_of(masses);
    return all > 0.0 ? top / all : 0.0;
}

double evidence_found(std::span<const double> masses, std::span<const size_t> evidence) {
    if (evidence.empty()) return 0.0;
    const std::vector<size_t> top = top_rounds(masses);
    const auto found =
        std::ranges::count_if(evidence, [&](size_t round) { return std::ranges::find(top, round) != top.end(); });
    return static_cast<double>(found) / static_cast<double>(evidence.size());
}

Masses normalised(std::span<const double> masses) {
    const double all = sum_of(masses);
    if (!(all > 0.0)) return {};
    Masses shares(masses.begin(), masses.end());
    for (double& share : shares) share /= all;
    return shares;
}

double divergence(std::span<const double> p, std::span<const double> q) {
    double total = 0.0;
    for (size_t i = 0; i < p.size(); ++i) total += p[i] * std::log((p[i] + epsilon) / (q[i] + epsilon));
    return total;
}

std::vector<double> divergences(std::span<const Masses> by_layer) {
    std::vector<Masses> shares;
    for (const Masses& masses : by_layer) {
        shares.push_back(normalised(masses));
        if (shares.back().empty()) return {};  // a layer that looks at no past round has no distribution
    }
    std::vector<double> means;
    for (size_t i = 0; i + 1 < shares.size(); ++i) {
        double total = 0.0;
        for (size_t j = i + 1; j < shares.size(); ++j) total += divergence(shares[i], shares[j]);
        means.push_back(total / static_cast<double>(shares.size() - i - 1));
    }
    return means;
}

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
    if (a.size() < 2) return std::nullopt;
    const std::vector<double> first = ranks_of(a), second = ranks_of(b);
    const double mean = static_cast<double>(a.size() - 1) / 2.0;
    double both = 0.0, of_first = 0.0, of_second = 0.0;
    for (size_t i = 0; i < first.size(); ++i) {
        const double x = first[i] - mean, y = second[i] - mean;
        both += x * y;
        of_first += x * x;
        of_second += y * y;
    }
    if (of_first == 0.0 || of_second == 0.0) return std::nullopt;
    return both / std::sqrt(of_first * of_second);
}

std::optional<Watershed> find_watershed(std::span<const double> divergences) {
    if (divergences.empty()) return std::nullopt;
    const size_t layers = divergences.size() + 1;
    const size_t candidates = layers > 2 ? layers - 2 : 0;
    if (candidates > 0) {
        const auto [least, greatest] = std::ranges::minmax(divergences.first(candidates));
        const double most = least + 0.25 * (greatest - least);
        for (size_t i = 1; i < candidates; ++i) {
            const double here = divergences[i];
            if (here < divergences[i - 1] && here <= divergences[i + 1] && here <= most)
                return Watershed{static_cast<int>(i) + 1, true};
        }
    }
    const auto half = divergences.first(std::max<size_t>(1, layers / 2));
    return Watershed{static_cast<int>(std::ranges::min_element(half) - half.begin()) + 1, false};
}

}  // namespace rondo::cli::attention
