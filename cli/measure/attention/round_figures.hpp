#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rondo::cli::attention {

/// What Round Attention asks of a model. Masses are sums of attention by past round, of one layer, in any unit.
using Masses = std::vector<double>;

/// How many of the past rounds are a tenth of them: never none.
constexpr size_t tenth_of(size_t rounds) {
    return rounds == 0 ? 0 : (rounds + 9) / 10;
}
/// The tenth of the rounds with the greatest masses, the greatest first; of equal ones the earlier.
std::vector<size_t> top_rounds(std::span<const double> masses);
/// Their share of all masses.
double top_share(std::span<const double> masses);
/// The share of the evidence rounds that is among them.
double evidence_found(std::span<const double> masses, std::span<const size_t> evidence);

/// Masses as shares of their sum; none where that is 0.
Masses normalised(std::span<const double> masses);
/// The Kullback-Leibler divergence of two distributions, in nats, with an ε of 1e-6 where one of them is 0.
double divergence(std::span<const double> p, std::span<const double> q);
/// D_i of each layer but the last: the mean divergence of its distribution from those of all later layers.
std::vector<double> divergences(std::span<const Masses> by_layer);

/// Spearman's correlation of the ranks; equal values share a rank. None of fewer than two values, or where all of one
/// side are equal.
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// The layer L_w, counted from 1.
struct Watershed {
    int layer = 0;
    bool is_minimum = false;  ///< a local minimum of D; else the least D of the first half of the layers
};
/// Round Attention: the first local minimum of D_i that lies within a quarter of the spread above the least; the
/// model's last two layers are no candidates. A minimum lies below the layer before it, so the first layer is none.
/// `divergences` are those of each layer but the last.
std::optional<Watershed> find_watershed(std::span<const double> divergences);

}  // namespace rondo::cli::attention
