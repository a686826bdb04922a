#include "model/policies/prefill_sparsity/line_sums.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace rondo {
namespace {

/// Adds a block's weights to its columns and returns their sum. Four partial sums, because compilers do not reorder
/// the addition of floats on their own.
float add_block(const float* __restrict weights, int64_t count, float* __restrict columns) {
    float sums[4] = {};
    int64_t key = 0;
    for (; key + 4 <= count; key += 4) {
        for (int64_t lane = 0; lane < 4; ++lane) {
            columns[key + lane] += weights[key + lane];
            sums[lane] += weights[key + lane];
        }
    }
    for (; key < count; ++key) {
        columns[key] += weights[key];
        sums[0] += weights[key];
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

bool LineSums::add_up(const ChunkShape& chunk, const SampledRows& sampled) {
    assert(sampled.stride == 0 || sampled.stride >= chunk.keys());
    const auto blocks = static_cast<size_t>(chunk.blocks());
    mass.assign(blocks + static_cast<size_t>(chunk.keys()), 0.0F);
    entries.assign(mass.size(), 0.0F);
    row_totals.clear();
    total = 0.0;
    float* const columns = mass.data() + blocks;
    int64_t counted = 0;  // columns whose entries are known: those that an earlier row does not see are yet to come
    for (size_t i = 0; i < sampled.rows.size(); ++i) {
        const SampledRow row(chunk, sampled, i);
        const double rows_before = total;
        for (int64_t block = 0; block <= row.block; ++block) {
            const int64_t begin = chunk.block_begin[static_cast<size_t>(block)];
            const int64_t end = std::min<int64_t>(chunk.block_begin[static_cast<size_t>(block) + 1], row.key + 1);
            const auto band = static_cast<size_t>(row.block - block);
            const float sum = add_block(row.weights + begin, end - begin, columns + begin);
            mass[band] += sum;
            entries[band] += static_cast<float>(end - begin);
            total += sum;
        }
        row_totals.push_back(total - rows_before);
        const auto see = static_cast<float>(sampled.rows.size() - i);
        std::fill(entries.begin() + static_cast<int64_t>(blocks) + counted,
                  entries.begin() + static_cast<int64_t>(blocks) + row.key + 1, see);
        counted = row.key + 1;
    }
    return std::isfinite(total);
}

}  // namespace rondo
