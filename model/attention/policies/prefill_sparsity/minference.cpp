#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/kv_layout.hpp"
#include "model/attention/policies/prefill_sparsity/best_first.hpp"
#include "model/attention/policies/prefill_sparsity/dense_lines.hpp"
#include "model/attention/policies/prefill_sparsity/fit_density.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"
#include "model/attention/policies/prefill_sparsity/local_window.hpp"
#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

// The method's vertical-slash pattern for one head: this many columns and diagonals, of which the first and the nearest
// are always chosen.
constexpr double columns_full = 1000.0, diagonals_full = 6096.0;
constexpr int64_t first_columns_full = 30, near_diagonals_full = 100;
constexpr int64_t block_keys = 64;  // of its block pattern

/// The columns and bands of one head, best first.
struct Ranking {
    LineSums sums;
    std::vector<int32_t> bands, columns;

    /// The best `columns_wanted` columns are in order, the others behind them in none.
    void rank(const ChunkShape& chunk, int64_t columns_wanted) {
        const auto blocks = static_cast<size_t>(chunk.blocks());
        const std::span<const float> mass = sums.mass;
        bands.resize(blocks);
        std::iota(bands.begin(), bands.end(), 0);
        std::ranges::sort(bands, GreaterValue{mass});
        columns.resize(static_cast<size_t>(chunk.keys()));
        std::iota(columns.begin(), columns.end(), 0);
        const auto wanted = columns.begin() + std::min(columns_wanted, chunk.keys());
        const GreaterValue greater{mass.subspan(blocks)};
        std::nth_element(columns.begin(), wanted, columns.end(), greater);
        std::sort(columns.begin(), wanted, greater);
    }
};

/// `count` lines of one kind: the first `always` of them and the best of the others.
void choose(std::span<const int32_t> ranked, int64_t count, int64_t always, std::vector<int32_t>& chosen) {
    for (int32_t line = 0; line < std::min(always, count); ++line) chosen.push_back(line);
    for (const int32_t line : ranked) {
        if (static_cast<int64_t>(chosen.size()) >= count) break;
        if (line >= always) chosen.push_back(line);
    }
    std::ranges::sort(chosen);
}

/// Without a search: the same pattern for every head, which `density` scales. What is always chosen shrinks with the
/// rest, else short prompts would have nothing to choose, but does not grow with it.
void choose_scaled(const ChunkShape& chunk, double density, Ranking& ranking, Lines& lines) {
    const auto columns_with = [](int64_t bands) {
        return std::max<int64_t>(1, scaled(columns_full, diagonals_full, bands));
    };
    ranking.rank(chunk, columns_with(chunk.blocks()));
    const auto add = [&](int64_t bands, Lines& made) {
        const int64_t first_columns = scaled(first_columns_full, diagonals_full, bands);
        const int64_t near_diagonals = scaled(near_diagonals_full, diagonals_full, bands);
        choose(ranking.columns, std::min(columns_with(bands), chunk.keys()),
               std::clamp<int64_t>(first_columns, 1, first_columns_full), made.columns);
        choose(ranking.bands, bands, bands_of_window(std::min(near_diagonals, near_diagonals_full)), made.bands);
    };
    fit_density(chunk, density, add, lines);
}

/// The counts of a search, as they stand.
void choose_counted(const ChunkShape& chunk, const HeadPattern& pattern, Ranking& ranking, Lines& lines) {
    lines.clear();
    const int64_t columns = std::min(std::max(pattern.first, first_columns_full), chunk.keys());
    const int64_t bands = std::min(
        std::max((pattern.second + kv_block_tokens - 1) / kv_block_tokens, bands_of_window(near_diagonals_full)),
        chunk.blocks());
    ranking.rank(chunk, columns);
    choose(ranking.columns, columns, first_columns_full, lines.columns);
    choose(ranking.bands, bands, bands_of_window(near_diagonals_full), lines.bands);
}

void choose_window(const ChunkShape& chunk, const HeadPattern& pattern, Lines& lines) {
    lines.clear();
    lines.columns.resize(static_cast<size_t>(std::min(pattern.first, chunk.keys())));
    std::iota(lines.columns.begin(), lines.columns.end(), 0);
    lines.bands.resize(static_cast<size_t>(std::min(bands_of_window(pattern.second), chunk.blocks())));
    std::iota(lines.bands.begin(), lines.bands.end(), 0);
}

/// Of each row block, the blocks whose pooled scores are greatest.
void choose_blocks(const ChunkShape& chunk, const HeadPattern& pattern, std::span<const float> scores, Lines& lines) {
    lines.clear();
    lines.bands.push_back(0);
    const int64_t blocks = chunk.blocks(), first = chunk.block_of(chunk.first_row);
    thread_local std::vector<int32_t> best;
    for (int64_t row_block = first; row_block < blocks; ++row_block) {
        best.resize(static_cast<size_t>(row_block));
        std::iota(best.begin(), best.end(), 0);
        const auto count = std::min(pattern.first * (block_keys / kv_block_tokens), row_block);
        const auto of_row = scores.subspan(static_cast<size_t>((row_block - first) * blocks), best.size());
        if (!std::ranges::all_of(of_row, [](float score) { return std::isfinite(score); }))
            return choose_dense_lines(chunk, lines);
        const GreaterValue greater{of_row};
        std::nth_element(best.begin(), best.begin() + count, best.end(), greater);
        std::sort(best.begin(), best.begin() + count);
        for (const int32_t block : std::span(best).first(static_cast<size_t>(count)))
            lines.blocks.push_back({.row_block = static_cast<int32_t>(row_block), .key_block = block});
    }
}

/// The columns and diagonals with the most mass among a chunk's last rows, in fixed numbers; or what a search has found
/// for each head. Diagonals are bands here: one for 16 of them.
class MInference final : public PrefillSparsity {
public:
    MInference(const PrefillAttention& settings, HeadPatterns patterns)
        : rows_(settings.sample_rows > 0 ? settings.sample_rows : 64),
          density_(settings.density),
          patterns_(std::move(patterns)) {}

    Sampling sampling() const override {
        return {.rows = rows_, .spread = false, .blocks = patterns_.any(HeadPattern::Kind::blocks)};
    }

    void select(const ChunkShape& chunk, const SampledRows& sampled, Lines& lines) const override {
        const HeadPattern* const pattern = patterns_.empty() ? nullptr : &patterns_.of(sampled.layer, sampled.head);
        if (pattern != nullptr && pattern->kind == HeadPattern::Kind::window)
            return choose_window(chunk, *pattern, lines);
        if (pattern != nullptr && pattern->kind == HeadPattern::Kind::blocks)
            return choose_blocks(chunk, *pattern, sampled.block_scores, lines);
        thread_local Ranking ranking;
        if (!ranking.sums.add_up(chunk, sampled)) return choose_dense_lines(chunk, lines);
        if (pattern == nullptr) return choose_scaled(chunk, density_, ranking, lines);
        choose_counted(chunk, *pattern, ranking, lines);
    }

private:
    const int rows_;
    const double density_;
    const HeadPatterns patterns_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_minference(const PrefillAttention& settings, HeadPatterns patterns) {
    return std::make_unique<MInference>(settings, std::move(patterns));
}

}  // namespace rondo
