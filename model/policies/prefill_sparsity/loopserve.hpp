#pragma once

#include "model/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// Lines that hold `alpha` of the sampled rows' attention (LoopServe §5.1), of its sum or of each row's, with mass that
/// two lines share counted once. Cheapest first: by new mass over newly covered entries.
void choose_exact_lines(const ChunkShape& chunk, const SampledRows& sampled, double alpha,
                        PrefillAttention::AlphaOf alpha_of, Lines& lines);

/// The same by the bookkeeping that the paper prints (its Algorithm 2), which guesses what lines share.
void choose_literal_lines(const ChunkShape& chunk, const SampledRows& sampled, double alpha, Lines& lines);

}  // namespace rondo
