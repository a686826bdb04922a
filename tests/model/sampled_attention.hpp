#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo::testing {

enum class Pattern { peaked, local, uniform, one_column, one_band, ties, sink_and_needles };

inline constexpr Pattern patterns[] = {Pattern::peaked,   Pattern::local, Pattern::uniform,         Pattern::one_column,
                                       Pattern::one_band, Pattern::ties,  Pattern::sink_and_needles};

/// A chunk somewhere in a sequence whose blocks are not all full, and what some of its rows attend to.
struct SampledAttention {
    int64_t first_row = 0;
    int64_t row_count = 0;
    std::vector<int32_t> block_begin = {};
    std::vector<int32_t> rows = {};
    std::vector<float> weights = {};

    ChunkShape chunk() const { return {.first_row = first_row, .rows = row_count, .block_begin = block_begin}; }
    SampledRows sampled() const { return {.rows = rows, .weights = weights}; }
    int64_t keys() const { return first_row + row_count; }
    int64_t key_of(size_t row) const { return first_row + rows[row]; }
    double weight(size_t row, int64_t key) const {
        return weights[row * static_cast<size_t>(keys()) + static_cast<size_t>(key)];
    }
    int64_t block_of(int64_t key) const { return std::ranges::upper_bound(block_begin, key) - block_begin.begin() - 1; }
    double total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
};

/// Blocks of `width` keys; every so often one is short, as where a round ends.
inline std::vector<int32_t> random_blocks(int64_t keys, int width, std::mt19937& random) {
    std::vector<int32_t> begin{0};
    while (begin.back() < keys) {
        const int size = random() % 8 == 0 ? 1 + static_cast<int>(random() % static_cast<uint32_t>(width)) : width;
        begin.push_back(static_cast<int32_t>(std::min<int64_t>(keys, begin.back() + size)));
    }
    return begin;
}

/// The logit of one entry of a pattern.
inline double pattern_logit(const SampledAttention& made, Pattern pattern, int64_t row, int64_t key, double noise) {
    const int64_t band = made.block_of(row) - made.block_of(key);
    switch (pattern) {
        case Pattern::peaked:
            return 4.0 * noise;
        case Pattern::local:
            return noise - 0.1 * static_cast<double>(row - key);
        case Pattern::uniform:
            return 0.0;
        case Pattern::one_column:
            return key == made.keys() / 3 ? 30.0 : 0.0;
        case Pattern::one_band:
            return band == 1 ? 30.0 : 0.0;
        case Pattern::ties:
            return key % 3 == 0 ? 2.0 : 0.0;
        case Pattern::sink_and_needles:
            return noise + (key == 0 ? 6.0 : 0.0) + (key % 37 == 5 ? 4.0 : 0.0) + (band <= 1 ? 2.0 : 0.0);
    }
    return 0.0;
}

/// Fills in the weights: the softmax of each sampled row.
inline void attend(SampledAttention& made, Pattern pattern, std::mt19937& random) {
    std::normal_distribution<double> normal;
    const auto keys = static_cast<size_t>(made.keys());
    made.weights.assign(made.rows.size() * keys, 0.0F);
    for (size_t i = 0; i < made.rows.size(); ++i) {
        std::vector<double> row(static_cast<size_t>(made.key_of(i)) + 1);
        for (size_t key = 0; key < row.size(); ++key) {
            row[key] = pattern_logit(made, pattern, made.key_of(i), static_cast<int64_t>(key), normal(random));
        }
        const double greatest = *std::ranges::max_element(row);
        for (double& each : row) each = std::exp(each - greatest);
        const double sum = std::accumulate(row.begin(), row.end(), 0.0);
        for (size_t key = 0; key < row.size(); ++key) made.weights[i * keys + key] = static_cast<float>(row[key] / sum);
    }
}

struct Shape {
    int64_t first_row = 0;
    int64_t rows = 0;
    int sampled = 0;
    bool spread = true;
    int block_width = 16;
};

inline SampledAttention sampled_attention(Shape shape, Pattern pattern, uint32_t seed) {
    std::mt19937 random(seed);
    SampledAttention made{.first_row = shape.first_row, .row_count = shape.rows};
    made.block_begin = random_blocks(made.keys(), shape.block_width, random);
    if (shape.spread) {
        made.rows = sample_rows(shape.rows, shape.sampled, seed);
    } else {
        made.rows.resize(static_cast<size_t>(std::min<int64_t>(shape.sampled, shape.rows)));
        std::iota(made.rows.begin(), made.rows.end(), static_cast<int32_t>(shape.rows - std::ssize(made.rows)));
    }
    attend(made, pattern, random);
    return made;
}

/// What lines cover among the sampled rows, entry by entry as the header says it.
struct Covered {
    double mass = 0.0;
    int64_t entries = 0;
    double least_of_a_row = 1.0;
};

inline Covered covered_by(const SampledAttention& in, const Lines& lines) {
    std::vector<bool> columns(static_cast<size_t>(in.keys())), bands(in.block_begin.size());
    for (const int32_t column : lines.columns) columns[static_cast<size_t>(column)] = true;
    for (const int32_t band : lines.bands) bands[static_cast<size_t>(band)] = true;
    Covered result;
    for (size_t i = 0; i < in.rows.size(); ++i) {
        const auto row_block = static_cast<int32_t>(in.block_of(in.key_of(i)));
        double row_mass = 0.0;
        for (int64_t key = 0; key <= in.key_of(i); ++key) {
            const auto key_block = static_cast<int32_t>(in.block_of(key));
            const bool covered =
                in.key_of(i) >= in.keys() - lines.dense_rows || columns[static_cast<size_t>(key)] ||
                bands[static_cast<size_t>(row_block - key_block)] ||
                std::ranges::find(lines.blocks, Lines::Block{row_block, key_block}) != lines.blocks.end();
            if (!covered) continue;
            row_mass += in.weight(i, key);
            ++result.entries;
        }
        result.mass += row_mass;
        result.least_of_a_row = std::min(result.least_of_a_row, row_mass);
    }
    return result;
}

inline double share(const ChunkShape& chunk, const Lines& lines) {
    const Coverage all = coverage(chunk, lines);
    return static_cast<double>(all.covered) / static_cast<double>(all.causal);
}

}  // namespace rondo::testing
