#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "kernels/kv_layout.hpp"
#include "model/attention/policies/prefill_sparsity/best_first.hpp"
#include "model/attention/policies/prefill_sparsity/dense_lines.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"
#include "model/attention/policies/prefill_sparsity/local_window.hpp"
#include "model/attention/policies/prefill_sparsity/loopserve.hpp"

namespace rondo {
namespace {

// Lines this close to the best are taken with it: one by one, a head of 64k keys would need thousands of scans.
constexpr float batch_share = 0.75F;
// After so many batches, lines are taken in order of ratio until together they hold what is missing. There are inputs
// whose best ratio hardly falls from batch to batch. An entry lies in two lines at most, so such a batch covers half of
// what is missing or more. Where each row wants its own share, it covers enough for one more row at least.
constexpr int patient_batches = 64;
constexpr float least_ratio = std::numeric_limits<float>::min();
constexpr size_t stripe_lines = 64;
static_assert(kv_block_tokens <= stripe_lines, "the columns of a block lie in two stripes at the most");
// A share of each row that sums of f32 may lose: 16 roundings. Those of a block's 16 keys, in one order and in another,
// hardly ever differ by more.
constexpr double rounding = 1.0 / (1 << 20);
// A taken line stays in the arrays. Dividing by this keeps its ratio from ever being the best.
constexpr float taken_entries = std::numeric_limits<float>::max();

/// Writes mass / entries for each line of a stripe, 0 where all entries are covered (what is left of their mass there
/// is rounding), and returns the greatest. Halving, because compilers do not reorder maxima of floats on their own.
float divide(const float* __restrict mass, const float* __restrict entries, float* __restrict ratios) {
    for (size_t line = 0; line < stripe_lines; ++line) ratios[line] = mass[line] / entries[line];
    for (size_t line = 0; line < stripe_lines; ++line) ratios[line] = entries[line] >= 1.0F ? ratios[line] : 0.0F;
    constexpr size_t half = stripe_lines / 2;
    float best[half];
    for (size_t line = 0; line < half; ++line) best[line] = std::max(ratios[line], ratios[line + half]);
    for (size_t line = 0; line < half / 2; ++line) best[line] = std::max(best[line], best[line + half / 2]);
    for (size_t line = 0; line < half / 4; ++line) best[line] = std::max(best[line], best[line + half / 4]);
    return *std::max_element(best, best + half / 4);
}

/// Takes a block's entries of one row from their columns' sums and returns the mass that no column had covered.
float cover_block(const float* __restrict weights, int64_t count, const float* __restrict open, float* __restrict mass,
                  float* __restrict entries) {
    float sums[4] = {};
    int64_t key = 0;
    for (; key + 4 <= count; key += 4) {
        for (int64_t lane = 0; lane < 4; ++lane) {
            mass[key + lane] -= weights[key + lane];
            entries[key + lane] -= 1.0F;
            sums[lane] += weights[key + lane] * open[key + lane];
        }
    }
    for (; key < count; ++key) {
        mass[key] -= weights[key];
        entries[key] -= 1.0F;
        sums[0] += weights[key] * open[key];
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// One head's choice. An entry is covered when its column or its band is taken, so the weights stay as they are. The
/// vectors are kept from call to call: once warm, choosing allocates nothing.
class Greedy {
public:
    void choose(const ChunkShape& chunk, const SampledRows& sampled, const PrefillAttention& settings, Lines& lines);

private:
    bool start(const ChunkShape& chunk, const SampledRows& sampled);
    void take_always(const ChunkShape& chunk, const PrefillAttention& settings);
    void forgive_rounding();
    void want(double share);
    float best_ratio();
    double collect(float ratio_min);
    void take_batch();
    void find_runs(std::span<const int32_t> columns);
    double cover_columns(const SampledRow& row);
    double cover_bands(const SampledRow& row, std::span<const int32_t> bands);
    void close(std::span<const int32_t> lines);
    void credit(size_t row, double mass);
    void leave_out(SampledRow& row);
    void touch(size_t line) { stale_[line / stripe_lines] = 1; }
    void write(Lines& lines) const;

    /// Columns of a batch that lie in the same block, so that each row has them in the same band.
    struct Run {
        int64_t block = 0;
        std::span<const int32_t> lines;
    };

    std::span<const int32_t> block_begin_;
    size_t blocks_ = 0;     // line `blocks_` is column 0
    double missing_ = 0.0;  // mass that is still wanted
    LineSums sums_;         // of the entries not covered; as all that is by line, made up to whole stripes
    std::vector<SampledRow> rows_;
    std::vector<double> row_missing_;  // where each row wants its own; else empty
    std::vector<float> nothing_;       // [keys]: the weights of a row that has enough
    std::vector<float> open_;          // [lines]: 0 when taken
    std::vector<float> ratios_;        // [lines]
    std::vector<float> stripe_best_;
    std::vector<uint8_t> stale_;  // stripes of which a line changed
    std::vector<int32_t> batch_;  // lines to take, ascending
    std::vector<Run> runs_;
};

void Greedy::choose(const ChunkShape& chunk, const SampledRows& sampled, const PrefillAttention& settings,
                    Lines& lines) {
    if (!start(chunk, sampled)) return choose_dense_lines(chunk, lines);
    missing_ = sums_.total;
    row_missing_.clear();
    if (settings.alpha_of == PrefillAttention::AlphaOf::each_row) {
        row_missing_ = sums_.row_totals;
        nothing_.assign(static_cast<size_t>(chunk.keys()), 0.0F);
    }
    lines.clear();
    const bool of_what_is_left = settings.first_keys > 0 || settings.near_keys > 0;
    if (!of_what_is_left) want(settings.alpha);
    take_always(chunk, settings);
    if (of_what_is_left) {
        forgive_rounding();
        want(settings.alpha);
    }
    for (int batches = 0; missing_ > 0.0; ++batches) {
        const float best = best_ratio();
        if (best < least_ratio) {  // alpha is so near to 1 that rounding hides what is missing
            lines.dense_rows = chunk.rows;
            break;
        }
        const double mass = collect(std::max(batches < patient_batches ? batch_share * best : 0.0F, least_ratio));
        if (mass > missing_) {
            keep_enough(batch_, ratios_, sums_.mass, missing_);
            std::ranges::sort(batch_);
        }
        take_batch();
    }
    write(lines);
}

bool Greedy::start(const ChunkShape& chunk, const SampledRows& sampled) {
    if (!sums_.add_up(chunk, sampled)) return false;
    block_begin_ = chunk.block_begin;
    blocks_ = static_cast<size_t>(chunk.blocks());
    rows_.clear();
    for (size_t i = 0; i < sampled.rows.size(); ++i) rows_.emplace_back(chunk, sampled, i);
    stripe_best_.resize((sums_.mass.size() + stripe_lines - 1) / stripe_lines);
    const size_t lines = stripe_best_.size() * stripe_lines;  // those beyond the last have no mass
    sums_.mass.resize(lines, 0.0F);
    sums_.entries.resize(lines, 1.0F);
    ratios_.resize(lines);
    open_.assign(lines, 1.0F);
    stale_.assign(stripe_best_.size(), 1);
    return true;
}

/// Bands before any column, because cover_columns() counts on band 0.
void Greedy::take_always(const ChunkShape& chunk, const PrefillAttention& settings) {
    const auto take = [&](size_t first, int64_t count) {
        batch_.resize(static_cast<size_t>(count));
        std::iota(batch_.begin(), batch_.end(), static_cast<int32_t>(first));
        take_batch();
    };
    take(0, std::min(bands_of_window(settings.near_keys), chunk.blocks()));
    take(blocks_, std::min<int64_t>(std::max(settings.first_keys, 1), chunk.keys()));
}

/// A row whose first and near keys hold everything seems to miss a little, which no line can bring: without this, the
/// head would be dense.
void Greedy::forgive_rounding() {
    if (row_missing_.empty()) {
        missing_ -= rounding * sums_.total;
        return;
    }
    missing_ = 0.0;
    for (size_t row = 0; row < row_missing_.size(); ++row) {
        row_missing_[row] -= rounding * sums_.row_totals[row];
        missing_ += std::max(row_missing_[row], 0.0);
    }
}

/// Of the mass that is missing a share is enough.
void Greedy::want(double share) {
    missing_ *= share;
    for (double& missing : row_missing_) missing *= share;
}

float Greedy::best_ratio() {
    float best = 0.0F;
    for (size_t stripe = 0; stripe < stripe_best_.size(); ++stripe) {
        if (stale_[stripe] != 0) {
            const size_t begin = stripe * stripe_lines;
            stripe_best_[stripe] =
                divide(sums_.mass.data() + begin, sums_.entries.data() + begin, ratios_.data() + begin);
            stale_[stripe] = 0;
        }
        best = std::max(best, stripe_best_[stripe]);
    }
    return best;
}

/// Makes the batch of all lines of that ratio, and returns what they would cover if they shared nothing.
double Greedy::collect(float ratio_min) {
    batch_.clear();
    double mass = 0.0;
    for (size_t stripe = 0; stripe < stripe_best_.size(); ++stripe) {
        if (stripe_best_[stripe] < ratio_min) continue;
        const size_t begin = stripe * stripe_lines;
        std::array<int32_t, stripe_lines> found;  // without branches, which nobody could foresee
        size_t count = 0;
        for (size_t line = begin; line < begin + stripe_lines; ++line) {
            const bool is_taken = ratios_[line] >= ratio_min;
            found[count] = static_cast<int32_t>(line);
            count += is_taken ? 1 : 0;
            mass += is_taken ? sums_.mass[line] : 0.0F;
        }
        batch_.insert(batch_.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return mass;
}

/// Row by row, so that the weights are read in the order they lie in. Columns first: bands then count what is new.
void Greedy::take_batch() {
    const auto first_column = std::ranges::lower_bound(batch_, static_cast<int32_t>(blocks_));
    const std::span<const int32_t> bands(batch_.begin(), first_column), columns(first_column, batch_.end());
    if (!columns.empty()) {
        find_runs(columns);
        for (size_t row = 0; row < rows_.size(); ++row) credit(row, cover_columns(rows_[row]));
        close(columns);
    }
    for (size_t row = 0; row < rows_.size(); ++row) credit(row, cover_bands(rows_[row], bands));
    close(bands);
    if (row_missing_.empty()) return;
    missing_ = 0.0;
    for (size_t row = 0; row < rows_.size(); ++row) {
        if (row_missing_[row] > 0.0) {
            missing_ += row_missing_[row];
        } else if (rows_[row].weights != nothing_.data()) {
            leave_out(rows_[row]);
        }
    }
}

void Greedy::credit(size_t row, double mass) {
    (row_missing_.empty() ? missing_ : row_missing_[row]) -= mass;
}

/// What lines offer a row that has enough counts for nothing from now on; what they cost does.
void Greedy::leave_out(SampledRow& row) {
    for (int64_t block = 0; block <= row.block; ++block) {
        const auto band = static_cast<size_t>(row.block - block);
        if (open_[band] == 0.0F) continue;
        const int64_t begin = block_begin_[static_cast<size_t>(block)];
        const int64_t end = std::min<int64_t>(block_begin_[static_cast<size_t>(block) + 1], row.key + 1);
        float sum = 0.0F;
        for (int64_t key = begin; key < end; ++key) {
            const size_t line = blocks_ + static_cast<size_t>(key);
            const float open = row.weights[key] * open_[line];
            sums_.mass[line] -= open;
            sum += open;
        }
        sums_.mass[band] -= sum;
    }
    std::ranges::fill(stale_, uint8_t{1});
    row.weights = nothing_.data();
}

void Greedy::find_runs(std::span<const int32_t> columns) {
    runs_.clear();
    int64_t block = 0;
    for (size_t begin = 0, end = 0; begin < columns.size(); begin = end) {
        const auto key_of = [&](size_t column) { return columns[column] - static_cast<int32_t>(blocks_); };
        while (block_begin_[static_cast<size_t>(block) + 1] <= key_of(begin)) ++block;
        const int32_t next = block_begin_[static_cast<size_t>(block) + 1];
        while (end < columns.size() && key_of(end) < next) ++end;
        runs_.push_back({.block = block, .lines = columns.subspan(begin, end - begin)});
    }
}

/// A row's own block is band 0, which is taken: there is nothing to cover there.
double Greedy::cover_columns(const SampledRow& row) {
    double mass = 0.0;
    for (const Run& run : runs_) {
        if (run.block >= row.block) break;
        float sum = 0.0F;
        for (const int32_t line : run.lines) sum += row.weights[static_cast<size_t>(line) - blocks_];
        const auto band = static_cast<size_t>(row.block - run.block);
        mass += sum * open_[band];
        sums_.mass[band] -= sum;
        sums_.entries[band] -= static_cast<float>(run.lines.size());
        touch(band);
    }
    return mass;
}

double Greedy::cover_bands(const SampledRow& row, std::span<const int32_t> bands) {
    double mass = 0.0;
    for (const int32_t band : bands) {
        if (band > row.block) break;
        const auto block = static_cast<size_t>(row.block - band);
        const int64_t begin = block_begin_[block];
        const int64_t end = std::min<int64_t>(block_begin_[block + 1], row.key + 1);
        const size_t line = blocks_ + static_cast<size_t>(begin);
        mass += cover_block(row.weights + begin, end - begin, open_.data() + line, sums_.mass.data() + line,
                            sums_.entries.data() + line);
        touch(line);
        touch(line + static_cast<size_t>(end - begin) - 1);
    }
    return mass;
}

void Greedy::close(std::span<const int32_t> lines) {
    for (const int32_t line : lines) {
        open_[static_cast<size_t>(line)] = 0.0F;
        sums_.mass[static_cast<size_t>(line)] = 0.0F;
        sums_.entries[static_cast<size_t>(line)] = taken_entries;
        touch(static_cast<size_t>(line));
    }
}

void Greedy::write(Lines& lines) const {
    for (size_t line = 0; line < open_.size(); ++line) {
        if (open_[line] != 0.0F) continue;
        if (line < blocks_) {
            lines.bands.push_back(static_cast<int32_t>(line));
        } else {
            lines.columns.push_back(static_cast<int32_t>(line - blocks_));
        }
    }
}

}  // namespace

void choose_exact_lines(const ChunkShape& chunk, const SampledRows& sampled, const PrefillAttention& settings,
                        Lines& lines) {
    thread_local Greedy greedy;
    greedy.choose(chunk, sampled, settings, lines);
}

}  // namespace rondo
