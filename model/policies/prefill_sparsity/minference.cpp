#include <algorithm>
#include <numeric>

#include "model/policies/prefill_sparsity/best_first.hpp"
#include "model/policies/prefill_sparsity/dense_lines.hpp"
#include "model/policies/prefill_sparsity/fit_density.hpp"
#include "model/policies/prefill_sparsity/line_sums.hpp"
#include "model/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

// The method's vertical-slash pattern for one head: this many columns and diagonals, of which the first and the nearest
// are always chosen.
constexpr double columns_full = 1000.0, diagonals_full = 6096.0;
constexpr int64_t first_columns_full = 30, near_diagonals_full = 100;

/// The columns and diagonals with the most mass among a chunk's last rows, in fixed numbers that `density` scales.
/// Diagonals are bands here: one for 16 of them. What is always chosen shrinks with the rest, else short prompts would
/// have nothing to choose, but does not grow with it.
class MInference final : public PrefillSparsity {
public:
    explicit MInference(double density) : density_(density) {}

    Sampling sampling() const override { return {.rows = 64, .spread = false}; }

    void select(const ChunkShape& chunk, const SampledRows& sampled, Lines& lines) const override {
        thread_local Scratch scratch;
        if (!scratch.sums.add_up(chunk, sampled)) return choose_dense_lines(chunk, lines);
        rank(chunk, scratch);
        fit_density(
            chunk, density_, [&](int64_t bands, Lines& made) { add(scratch, bands, made); }, lines);
    }

private:
    struct Scratch {
        LineSums sums;
        std::vector<int32_t> bands, columns;  // best first
    };

    static int64_t columns_with(int64_t bands) {
        return std::max<int64_t>(1, scaled(columns_full, diagonals_full, bands));
    }

    static void rank(const ChunkShape& chunk, Scratch& scratch) {
        const auto blocks = static_cast<size_t>(chunk.blocks());
        const std::span<const float> mass = scratch.sums.mass;
        scratch.bands.resize(blocks);
        std::iota(scratch.bands.begin(), scratch.bands.end(), 0);
        std::ranges::sort(scratch.bands, GreaterValue{mass});
        scratch.columns.resize(static_cast<size_t>(chunk.keys()));
        std::iota(scratch.columns.begin(), scratch.columns.end(), 0);
        const auto asked = scratch.columns.begin() + std::min(columns_with(chunk.blocks()), chunk.keys());
        const GreaterValue greater{mass.subspan(blocks)};
        std::nth_element(scratch.columns.begin(), asked, scratch.columns.end(), greater);
        std::sort(scratch.columns.begin(), asked, greater);
    }

    /// `count` lines of one kind: the first `always` of them and the best of the others.
    static void choose(std::span<const int32_t> ranked, int64_t count, int64_t always, std::vector<int32_t>& chosen) {
        for (int32_t line = 0; line < std::min(always, count); ++line) chosen.push_back(line);
        for (const int32_t line : ranked) {
            if (static_cast<int64_t>(chosen.size()) >= count) break;
            if (line >= always) chosen.push_back(line);
        }
        std::ranges::sort(chosen);
    }

    static void add(const Scratch& scratch, int64_t bands, Lines& lines) {
        const int64_t keys = static_cast<int64_t>(scratch.columns.size());
        const int64_t first_columns = scaled(first_columns_full, diagonals_full, bands);
        const int64_t near_diagonals = scaled(near_diagonals_full, diagonals_full, bands);
        // Those that the first row of a block reaches over.
        const int64_t near_bands =
            (std::min(near_diagonals, near_diagonals_full) + kv_block_tokens - 2) / kv_block_tokens;
        choose(scratch.columns, std::min(columns_with(bands), keys),
               std::clamp<int64_t>(first_columns, 1, first_columns_full), lines.columns);
        choose(scratch.bands, bands, 1 + near_bands, lines.bands);
    }

    const double density_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_minference(const PrefillAttention& settings) {
    return std::make_unique<MInference>(settings.density);
}

}  // namespace rondo
