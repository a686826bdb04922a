#pragma once

#include <cmath>

#include "kernels/kv_layout.hpp"
#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// Fills `lines` by make(bands, lines), with the number of bands that brings the share of entries covered nearest to
/// `density`. With more bands `make` must not cover less, and with as many as there are blocks it covers everything.
template <class Make>
void fit_density(const ChunkShape& chunk, double density, const Make& make, Lines& lines) {
    const auto share_made_with = [&](int64_t bands) {
        lines.clear();
        make(bands, lines);
        const Coverage made = coverage(chunk, lines);
        return static_cast<double>(made.covered) / static_cast<double>(made.causal);
    };
    int64_t low = 1, high = chunk.blocks();  // the fewest bands that reach it lie between
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (share_made_with(middle) < density) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const double above = share_made_with(low) - density;  // `lines` are those of the last call
    if (low == 1) return;
    if (density - share_made_with(low - 1) > above) share_made_with(low);
}

/// A count that goes with `keys` keys at the method's own size, for `bands` bands of blocks.
inline int64_t scaled(double count, double keys, int64_t bands) {
    return std::llround(count / keys * static_cast<double>(bands * kv_block_tokens));
}

}  // namespace rondo
