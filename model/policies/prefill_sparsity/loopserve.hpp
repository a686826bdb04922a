#pragma once

#include "model/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// Lines that hold `alpha` of the sampled rows' attention (LoopServe §5.1), with mass that two lines share counted
/// once. Cheapest first: by new mass over newly covered entries.
void choose_exact_lines(const ChunkShape& chunk, const SampledRows& sampled, double alpha, Lines& lines);

/// The same by the bookkeeping that the paper prints (its Algorithm 2), which guesses what lines share.
void choose_literal_lines(const ChunkShape& chunk, const SampledRows& sampled, double alpha, Lines& lines);

}  // namespace rondo
