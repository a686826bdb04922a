#pragma once

#include <vector>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// One of the sampled rows: the key it stands at, that key's block, and its weights.
struct SampledRow {
    int64_t key = 0;
    int64_t block = 0;
    const float* weights = nullptr;  ///< [keys]

    SampledRow(const ChunkShape& chunk, const SampledRows& sampled, size_t row)
        : key(chunk.first_row + sampled.rows[row]),
          block(chunk.block_of(key)),
          weights(sampled.weights.data() +
                  row * static_cast<size_t>(sampled.stride == 0 ? chunk.keys() : sampled.stride)) {}
};

/// What every line holds of the sampled rows. Lines are numbered, bands before columns: band b is line b, column c is
/// line blocks + c.
struct LineSums {
    std::vector<float> mass;
    std::vector<float> entries;  ///< as float, because they divide; exact up to 2^24
    std::vector<double> row_totals;
    double total = 0.0;

    /// Counts anew, in one pass over the weights. False when they are no numbers: then nothing can be chosen.
    [[nodiscard]] bool add_up(const ChunkShape& chunk, const SampledRows& sampled);

private:
    std::vector<SampledRow> rows_;  // some at a time
};

}  // namespace rondo
