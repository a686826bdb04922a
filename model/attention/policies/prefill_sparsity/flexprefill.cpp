#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "kernels/kv_layout.hpp"
#include "model/attention/policies/prefill_sparsity/best_first.hpp"
#include "model/attention/policies/prefill_sparsity/dense_lines.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"
#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

constexpr double coverage_wanted = 0.9;  // the method's gamma
constexpr double distance_max = 0.1;     // its tau
constexpr int own_block = 128;           // keys and rows; the first and the nearest of them are always chosen
constexpr int64_t own_bands = own_block / kv_block_tokens;

struct Scratch {
    LineSums sums;
    std::vector<float> estimate;            // [row blocks, blocks]: what pooled scores say of each block's mass
    std::vector<double> guessed, attended;  // [blocks]: mass of the sampled rows by block, by the estimate and in truth
    std::vector<int32_t> chosen;
};

/// Jensen and Shannon's distance of two distributions: the square root of their divergence.
double distance(std::span<const double> a, std::span<const double> b) {
    double divergence = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double mean = (a[i] + b[i]) / 2.0;
        if (a[i] > 0.0) divergence += a[i] / 2.0 * std::log(a[i] / mean);
        if (b[i] > 0.0) divergence += b[i] / 2.0 * std::log(b[i] / mean);
    }
    return std::sqrt(std::max(divergence, 0.0));
}

/// Softmax of each row block's pooled scores over the blocks it sees. A block that is not full weighs as many keys as
/// it has. False when the scores are no numbers.
bool estimate_blocks(const ChunkShape& chunk, std::span<const float> scores, std::vector<float>& estimate) {
    const auto blocks = static_cast<size_t>(chunk.blocks());
    const auto first = static_cast<size_t>(chunk.block_of(chunk.first_row));
    assert(scores.size() == (blocks - first) * blocks);
    estimate.assign(scores.size(), 0.0F);
    for (size_t row = 0; row < blocks - first; ++row) {
        const auto seen = scores.subspan(row * blocks, first + row + 1);
        const float greatest = *std::ranges::max_element(seen);
        double sum = 0.0;
        for (size_t block = 0; block < seen.size(); ++block) {
            const auto keys = static_cast<float>(chunk.block_begin[block + 1] - chunk.block_begin[block]);
            estimate[row * blocks + block] = keys * std::exp(seen[block] - greatest);
            sum += estimate[row * blocks + block];
        }
        if (!std::isfinite(sum)) return false;
        for (size_t block = 0; block < seen.size(); ++block) {
            estimate[row * blocks + block] = static_cast<float>(estimate[row * blocks + block] / sum);
        }
    }
    return true;
}

/// Whether the estimate tells where the sampled rows really look.
bool estimate_holds(const ChunkShape& chunk, const SampledRows& sampled, Scratch& scratch) {
    const auto blocks = static_cast<size_t>(chunk.blocks());
    const int64_t first = chunk.block_of(chunk.first_row);
    scratch.guessed.assign(blocks, 0.0);
    scratch.attended.assign(blocks, 0.0);
    const auto rows = static_cast<double>(sampled.rows.size());
    for (size_t i = 0; i < sampled.rows.size(); ++i) {
        const SampledRow row(chunk, sampled, i);
        const float* const estimate = scratch.estimate.data() + static_cast<size_t>(row.block - first) * blocks;
        for (size_t block = 0; block <= static_cast<size_t>(row.block); ++block) {
            const int64_t end = std::min<int64_t>(chunk.block_begin[block + 1], row.key + 1);
            scratch.attended[block] +=
                std::accumulate(row.weights + chunk.block_begin[block], row.weights + end, 0.0) / rows;
            scratch.guessed[block] += estimate[block] / rows;
        }
    }
    return distance(scratch.guessed, scratch.attended) < distance_max;
}

/// Chooses for each head: blocks by pooled scores where these foretell what its last rows attend to, else the columns
/// and diagonals of those rows. Either way until a share `coverage_wanted` is held.
class FlexPrefill final : public PrefillSparsity {
public:
    explicit FlexPrefill(const PrefillAttention& settings)
        : rows_(settings.sample_rows > 0 ? settings.sample_rows : own_block) {}

    Sampling sampling() const override { return {.rows = rows_, .spread = false, .blocks = true}; }

    void select(const ChunkShape& chunk, const SampledRows& sampled, Lines& lines) const override {
        thread_local Scratch scratch;
        if (!scratch.sums.add_up(chunk, sampled)) return choose_dense_lines(chunk, lines);
        lines.clear();
        if (!sampled.block_scores.empty() && estimate_blocks(chunk, sampled.block_scores, scratch.estimate) &&
            estimate_holds(chunk, sampled, scratch)) {
            choose_blocks(chunk, scratch, lines);
        } else {
            choose_lines(chunk, scratch, lines);
        }
    }

private:
    /// All row blocks together, so that heads of few blocks leave room to rows that need more.
    static void choose_blocks(const ChunkShape& chunk, Scratch& scratch, Lines& lines) {
        const int64_t blocks = chunk.blocks(), first = chunk.block_of(chunk.first_row);
        scratch.chosen.resize(scratch.estimate.size());
        std::iota(scratch.chosen.begin(), scratch.chosen.end(), 0);
        keep_enough(scratch.chosen, scratch.estimate, scratch.estimate,
                    coverage_wanted * static_cast<double>(blocks - first));
        std::ranges::sort(scratch.chosen);
        for (const int32_t each : scratch.chosen) {
            const auto row_block = static_cast<int32_t>(first + each / blocks);
            lines.blocks.push_back({.row_block = row_block, .key_block = static_cast<int32_t>(each % blocks)});
        }
        add_first(std::min<int64_t>(own_block, chunk.keys()), lines.columns);
        add_first(std::min(own_bands, blocks), lines.bands);
    }

    /// The lines [0, count), besides those that are chosen.
    static void add_first(int64_t count, std::vector<int32_t>& chosen) {
        std::erase_if(chosen, [&](int32_t line) { return line < count; });
        chosen.resize(chosen.size() + static_cast<size_t>(count));
        std::iota(chosen.end() - count, chosen.end(), 0);
        std::ranges::sort(chosen);
    }

    /// Columns that hold the share on their own, and bands that do.
    static void choose_lines(const ChunkShape& chunk, Scratch& scratch, Lines& lines) {
        const auto blocks = static_cast<size_t>(chunk.blocks());
        const double wanted = coverage_wanted * scratch.sums.total;
        const auto choose = [&](size_t count, std::span<const float> mass, int64_t always,
                                std::vector<int32_t>& chosen) {
            chosen.resize(count);
            std::iota(chosen.begin(), chosen.end(), 0);
            keep_enough(chosen, mass, mass, wanted);
            add_first(std::min(always, std::ssize(mass)), chosen);
        };
        const std::span<const float> mass = scratch.sums.mass;
        choose(static_cast<size_t>(chunk.keys()), mass.subspan(blocks), own_block, lines.columns);
        choose(blocks, mass.first(blocks), own_bands, lines.bands);
    }

    const int rows_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_flexprefill(const PrefillAttention& settings, HeadPatterns) {
    return std::make_unique<FlexPrefill>(settings);
}

}  // namespace rondo
