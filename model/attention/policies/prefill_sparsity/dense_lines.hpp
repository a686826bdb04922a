#pragma once

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// Overwrites `lines` with all that the chunk's rows see: where that is asked for, and where nothing can be chosen
/// because the weights are no numbers.
inline void choose_dense_lines(const ChunkShape& chunk, Lines& lines) {
    lines.clear();
    lines.bands.push_back(0);
    lines.dense_rows = chunk.rows;
}

}  // namespace rondo
