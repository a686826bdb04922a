#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo::cli::attention {

/// LoopServe's lines as its §3.1 counts them: columns (one key, all rows) and diagonals (keys at one distance before
/// their rows), each as many as there are keys. The engine's bands are sixteen such diagonals wide.
struct TopLines {
    std::vector<int32_t> columns, diagonals;  ///< keys; distances; ascending
    int64_t keys = 0;                         ///< there were
    double share = 0.0;                       ///< of the rows' attention that they hold, each entry counted once
};

/// The tenth of a head's lines whose sums over the rows are greatest; of equal ones columns before diagonals, the
/// smaller first. None where weights are no numbers.
TopLines top_lines(const ChunkShape& chunk, const SampledRows& rows);

/// How many of the lines of two turns both chose, of those that either chose (Jaccard). Lines that the earlier turn
/// did not have do not count. None where neither chose any of the others.
std::optional<double> overlap(const TopLines& before, const TopLines& now);

}  // namespace rondo::cli::attention
