#pragma once

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// Lines that hold a share alpha of the sampled rows' attention (LoopServe §5.1), of its sum or of each row's, with
/// mass that two lines share counted once. Cheapest first: by new mass over newly covered entries. Where first or near
/// keys are always chosen, alpha is of what they leave.
void choose_exact_lines(const ChunkShape& chunk, const SampledRows& sampled, const PrefillAttention& settings,
                        Lines& lines);

/// The same by the bookkeeping that the paper prints (its Algorithm 2), which guesses what lines share.
void choose_literal_lines(const ChunkShape& chunk, const SampledRows& sampled, double alpha, Lines& lines);

/// Adds for each block of rows the `count` blocks of keys before it whose means score highest, of those that no band
/// holds. False when the scores are no numbers.
[[nodiscard]] bool add_best_blocks(const ChunkShape& chunk, std::span<const float> scores, int count, Lines& lines);

}  // namespace rondo
