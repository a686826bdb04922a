#include "model/attention/policies/prefill_sparsity/line_sums.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

namespace rondo {
namespace {

/// Four floats, which are added at once.
using Floats = float __attribute__((vector_size(16)));

Floats load(const float* from) {
    Floats floats;
    std::memcpy(&floats, from, sizeof floats);
    return floats;
}

/// Adds a block's weights of some rows to its columns, and of each row returns their sum.
template <size_t rows>
std::array<float, rows> add_block(const std::array<const float*, rows>& weights, int64_t count, float* columns) {
    Floats sums[rows] = {};
    int64_t key = 0;
    for (; key + 4 <= count; key += 4) {
        Floats column = load(columns + key);
        for (size_t row = 0; row < rows; ++row) {
            const Floats weight = load(weights[row] + key);
            column += weight;
            sums[row] += weight;
        }
        std::memcpy(columns + key, &column, sizeof column);
    }
    std::array<float, rows> sum;
    for (size_t row = 0; row < rows; ++row) {
        sum[row] = (sums[row][0] + sums[row][1]) + (sums[row][2] + sums[row][3]);
        for (int64_t last = key; last < count; ++last) {
            columns[last] += weights[row][last];
            sum[row] += weights[row][last];
        }
    }
    return sum;
}

}  // namespace

bool LineSums::add_up(const ChunkShape& chunk, const SampledRows& sampled) {
    assert(sampled.stride == 0 || sampled.stride >= chunk.keys());
    constexpr size_t together = 4;  // rows for which the columns are read and written once
    const auto blocks = static_cast<size_t>(chunk.blocks());
    mass.assign(blocks + static_cast<size_t>(chunk.keys()), 0.0F);
    entries.assign(mass.size(), 0.0F);
    row_totals.assign(sampled.rows.size(), 0.0);
    float* const columns = mass.data() + blocks;
    const auto begin_of = [&](int64_t block) { return chunk.block_begin[static_cast<size_t>(block)]; };
    const auto count = [&](size_t i, const SampledRow& row, int64_t block, int64_t keys, float sum) {
        const auto band = static_cast<size_t>(row.block - block);
        mass[band] += sum;
        entries[band] += static_cast<float>(keys);
        row_totals[i] += sum;
    };
    for (size_t first = 0; first < sampled.rows.size(); first += together) {
        std::vector<SampledRow>& rows = rows_;
        rows.clear();
        for (size_t i = first; i < std::min(first + together, sampled.rows.size()); ++i)
            rows.emplace_back(chunk, sampled, i);
        // Blocks before the first row's own are seen whole by all.
        const int64_t shared = rows.size() == together ? rows.front().block : 0;
        for (int64_t block = 0; block < shared; ++block) {
            const int64_t begin = begin_of(block), keys = begin_of(block + 1) - begin;
            std::array<const float*, together> weights;
            for (size_t i = 0; i < together; ++i) weights[i] = rows[i].weights + begin;
            const auto sums = add_block(weights, keys, columns + begin);
            for (size_t i = 0; i < together; ++i) count(first + i, rows[i], block, keys, sums[i]);
        }
        for (size_t i = 0; i < rows.size(); ++i) {
            const SampledRow& row = rows[i];
            for (int64_t block = shared; block <= row.block; ++block) {
                const int64_t begin = begin_of(block),
                              keys = std::min<int64_t>(begin_of(block + 1), row.key + 1) - begin;
                const auto sums = add_block<1>({row.weights + begin}, keys, columns + begin);
                count(first + i, row, block, keys, sums[0]);
            }
        }
    }
    int64_t counted = 0;  // columns whose entries are known: those that an earlier row does not see are yet to come
    for (size_t i = 0; i < sampled.rows.size(); ++i) {
        const int64_t end = chunk.first_row + sampled.rows[i] + 1;
        const auto column_entries = entries.begin() + static_cast<int64_t>(blocks);
        std::fill(column_entries + counted, column_entries + end, static_cast<float>(sampled.rows.size() - i));
        counted = end;
    }
    total = std::accumulate(row_totals.begin(), row_totals.end(), 0.0);
    return std::isfinite(total);
}

}  // namespace rondo
