#include "model/attention/policies/prefill_sparsity/local_window.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/kv_layout.hpp"
#include "model/attention/policies/prefill_sparsity/fit_density.hpp"

namespace rondo {

void add_local_window(const ChunkShape& chunk, int64_t bands, Lines& lines) {
    constexpr double sinks = 128.0;
    constexpr int64_t sinks_min = 4;
    const int64_t columns = std::min(std::max(sinks_min, scaled(sinks, local_window_keys, bands)), chunk.keys());
    lines.columns.resize(static_cast<size_t>(columns));
    std::iota(lines.columns.begin(), lines.columns.end(), 0);
    lines.bands.resize(static_cast<size_t>(bands));
    std::iota(lines.bands.begin(), lines.bands.end(), 0);
}

int64_t bands_of_window(int64_t keys) {
    return 1 + (std::max<int64_t>(keys, 1) + kv_block_tokens - 2) / kv_block_tokens;
}

}  // namespace rondo
