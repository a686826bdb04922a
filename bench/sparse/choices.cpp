#include "sparse/choices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rondo::bench {

std::vector<int32_t> some_of(int64_t population, int64_t count, std::mt19937_64& random) {
    std::vector<int32_t> chosen;
    int64_t wanted = std::clamp<int64_t>(count, 0, population);
    chosen.reserve(static_cast<size_t>(wanted));
    for (int64_t i = 0; wanted > 0; ++i) {  // of what is left, each as likely as any other
        if (random() % static_cast<uint64_t>(population - i) >= static_cast<uint64_t>(wanted)) continue;
        chosen.push_back(static_cast<int32_t>(i));
        --wanted;
    }
    return chosen;
}

Lines random_lines(const ChunkShape& chunk, double density, std::mt19937_64& random) {
    const double share = 1.0 - std::sqrt(1.0 - density);  // of each kind: some entries lie in both
    Lines lines;
    const int64_t bands = std::llround(share * static_cast<double>(chunk.blocks()));
    lines.bands = some_of(chunk.blocks() - 1, bands - 1, random);
    for (int32_t& band : lines.bands) ++band;
    lines.bands.insert(lines.bands.begin(), 0);
    lines.columns = some_of(chunk.keys(), std::llround(share * static_cast<double>(chunk.keys())), random);
    return lines;
}

Lines random_blocks(const ChunkShape& chunk, double density, std::mt19937_64& random) {
    Lines lines;
    lines.bands = {0};
    for (int64_t block = chunk.block_of(chunk.first_row); block < chunk.blocks(); ++block) {
        // Rows see half of their own block in the mean.
        const int64_t others = std::llround(density * (static_cast<double>(block) + 0.5) - 0.5);
        for (const int32_t other : some_of(block, others, random))
            lines.blocks.push_back({static_cast<int32_t>(block), other});
    }
    return lines;
}

Lines all_lines(const ChunkShape& chunk, int by) {
    Lines lines;
    lines.bands = {0};
    if (by == 0) {
        lines.bands.resize(static_cast<size_t>(chunk.blocks()));
        std::iota(lines.bands.begin(), lines.bands.end(), 0);
    } else if (by == 1) {
        for (int64_t block = chunk.block_of(chunk.first_row); block < chunk.blocks(); ++block) {
            for (int32_t other = 0; other < block; ++other)
                lines.blocks.push_back({static_cast<int32_t>(block), other});
        }
    } else {
        lines.columns.resize(static_cast<size_t>(chunk.keys()));
        std::iota(lines.columns.begin(), lines.columns.end(), 0);
    }
    return lines;
}

std::vector<int32_t> keys_of_row(const ChunkShape& chunk, const Lines& lines, int64_t row) {
    std::vector<int32_t> keys;
    const int64_t last = chunk.first_row + row;
    const auto own = static_cast<int32_t>(chunk.block_of(last));
    for (int32_t block = 0; block <= own; ++block) {
        const bool whole = row >= chunk.rows - lines.dense_rows ||
                           std::ranges::binary_search(lines.bands, own - block) ||
                           std::ranges::binary_search(lines.blocks, Lines::Block{own, block});
        const auto at = static_cast<size_t>(block);
        for (int32_t key = chunk.block_begin[at]; key < chunk.block_begin[at + 1] && key <= last; ++key) {
            if (whole || std::ranges::binary_search(lines.columns, key)) keys.push_back(key);
        }
    }
    return keys;
}

LinesOfHeads::LinesOfHeads(std::span<const Lines> heads) {
    for (const Lines& lines : heads) {
        columns_.insert(columns_.end(), lines.columns.begin(), lines.columns.end());
        bands_.insert(bands_.end(), lines.bands.begin(), lines.bands.end());
        for (const Lines::Block& block : lines.blocks)
            blocks_.insert(blocks_.end(), {block.row_block, block.key_block});
        column_begin_.push_back(static_cast<int32_t>(columns_.size()));
        band_begin_.push_back(static_cast<int32_t>(bands_.size()));
        block_begin_.push_back(static_cast<int32_t>(blocks_.size() / 2));
        dense_rows_.push_back(static_cast<int32_t>(lines.dense_rows));
    }
}

LineTables LinesOfHeads::tables() const {
    return {column_begin_.data(), columns_.data(), band_begin_.data(), bands_.data(),
            block_begin_.data(),  blocks_.data(),  dense_rows_.data()};
}

}  // namespace rondo::bench
