#include <algorithm>
#include <numeric>

#include "model/attention/policies/prefill_sparsity/best_first.hpp"
#include "model/attention/policies/prefill_sparsity/dense_lines.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"
#include "model/attention/policies/prefill_sparsity/loopserve.hpp"

namespace rondo {
namespace {

/// Lines of one kind, by falling mass, and how many of them are chosen.
struct Ranked {
    std::vector<int32_t> order;
    size_t chosen = 0;

    void sort(int32_t first, size_t count, std::span<const float> mass) {
        order.resize(count);
        std::iota(order.begin(), order.end(), first);
        std::ranges::sort(order, GreaterValue{mass});
        chosen = 0;
    }
    bool empty() const { return chosen == order.size(); }
    size_t next() const { return static_cast<size_t>(order[chosen]); }
};

/// The greatest single weight on every line, the paper's w^max.
void find_greatest(const ChunkShape& chunk, const SampledRows& sampled, std::vector<float>& greatest) {
    const auto blocks = static_cast<size_t>(chunk.blocks());
    greatest.assign(blocks + static_cast<size_t>(chunk.keys()), 0.0F);
    for (size_t i = 0; i < sampled.rows.size(); ++i) {
        const SampledRow row(chunk, sampled, i);
        int64_t block = 0;
        for (int64_t key = 0; key <= row.key; ++key) {
            while (chunk.block_begin[static_cast<size_t>(block) + 1] <= key) ++block;
            float& band = greatest[static_cast<size_t>(row.block - block)];
            float& column = greatest[blocks + static_cast<size_t>(key)];
            band = std::max(band, row.weights[key]);
            column = std::max(column, row.weights[key]);
        }
    }
}

struct Scratch {
    LineSums sums;
    std::vector<float> greatest;
    Ranked bands, columns;
};

}  // namespace

// The variables are the paper's: a band or column s, v offers w - ol, with ol the sum of the greatest weights of all
// chosen lines that cross it, wherever those weights lie. Three things are added, without which the loop need not end.
// A chosen line leaves its list. Where one list is empty, the other goes on. Where a count of entries is not positive
// (the paper divides by it), it is 1. When both lists are empty everything is chosen. What the lines really hold may be
// less than alpha: nothing here measures it. Column 0 and band 0 are added at the end, outside the bookkeeping.
void choose_literal_lines(const ChunkShape& chunk, const SampledRows& sampled, double alpha, Lines& lines) {
    thread_local Scratch scratch;
    LineSums& sums = scratch.sums;
    Ranked &bands = scratch.bands, &columns = scratch.columns;
    if (!sums.add_up(chunk, sampled)) return choose_dense_lines(chunk, lines);
    find_greatest(chunk, sampled, scratch.greatest);
    const auto blocks = static_cast<int32_t>(chunk.blocks());
    bands.sort(0, static_cast<size_t>(blocks), sums.mass);
    columns.sort(blocks, static_cast<size_t>(chunk.keys()), sums.mass);
    const double target = alpha * sums.total;
    double sum = 0.0, overlap_bands = 0.0, overlap_columns = 0.0;
    while (sum < target && !(bands.empty() && columns.empty())) {
        const auto gain = [&](const Ranked& kind, double overlap) { return sums.mass[kind.next()] - overlap; };
        const auto ratio = [&](const Ranked& kind, const Ranked& crossing, double overlap) {
            const double entries = sums.entries[kind.next()] - static_cast<double>(crossing.chosen);
            return gain(kind, overlap) / std::max(entries, 1.0);
        };
        const bool take_band = columns.empty() || (!bands.empty() && ratio(bands, columns, overlap_columns) >=
                                                                         ratio(columns, bands, overlap_bands));
        Ranked& taken = take_band ? bands : columns;
        sum += gain(taken, take_band ? overlap_columns : overlap_bands);
        (take_band ? overlap_bands : overlap_columns) += scratch.greatest[taken.next()];
        ++taken.chosen;
    }
    lines.clear();
    lines.bands.push_back(0);
    lines.columns.push_back(0);
    for (size_t i = 0; i < bands.chosen; ++i) lines.bands.push_back(bands.order[i]);
    for (size_t i = 0; i < columns.chosen; ++i) lines.columns.push_back(columns.order[i] - blocks);
    for (std::vector<int32_t>* chosen : {&lines.bands, &lines.columns}) {
        std::ranges::sort(*chosen);
        chosen->erase(std::unique(chosen->begin(), chosen->end()), chosen->end());
    }
}

}  // namespace rondo
