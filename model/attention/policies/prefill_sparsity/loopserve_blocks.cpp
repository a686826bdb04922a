#include <algorithm>
#include <cmath>

#include "model/attention/policies/prefill_sparsity/best_first.hpp"
#include "model/attention/policies/prefill_sparsity/loopserve.hpp"

namespace rondo {

bool add_best_blocks(const ChunkShape& chunk, std::span<const float> scores, int count, Lines& lines) {
    thread_local std::vector<int32_t> open;
    const int64_t blocks = chunk.blocks(), first = chunk.block_of(chunk.first_row);
    for (int64_t row_block = first; row_block < blocks; ++row_block) {
        const auto of_row =
            scores.subspan(static_cast<size_t>((row_block - first) * blocks), static_cast<size_t>(row_block));
        if (!std::ranges::all_of(of_row, [](float score) { return std::isfinite(score); })) return false;
        open.clear();
        auto band = lines.bands.rbegin();  // the farthest first, as blocks come from the sequence's beginning
        for (int32_t block = 0; block < row_block; ++block) {
            const auto distance = static_cast<int32_t>(row_block) - block;
            while (band != lines.bands.rend() && *band > distance) ++band;
            if (band == lines.bands.rend() || *band != distance) open.push_back(block);
        }
        const auto best = open.begin() + std::min<int64_t>(count, std::ssize(open));
        std::nth_element(open.begin(), best, open.end(), GreaterValue{of_row});
        std::sort(open.begin(), best);
        for (auto block = open.begin(); block != best; ++block)
            lines.blocks.push_back({.row_block = static_cast<int32_t>(row_block), .key_block = *block});
    }
    return true;
}

}  // namespace rondo
