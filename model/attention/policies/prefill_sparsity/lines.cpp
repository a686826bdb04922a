#include <algorithm>
#include <cassert>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {
namespace {

/// What `lines` mean for the rows of one block.
struct RowBlock {
    int64_t block = 0;
    int64_t first_key = 0;  ///< of its rows in the chunk
    int64_t last_key = 0;
    std::span<const Lines::Block> key_blocks = {};
};

/// Entries that columns, bands and blocks cover in some rows of one block. A block of keys that lies before the rows'
/// own is seen by all of them or by none, so rows differ only in their own block.
int64_t covered_in(const ChunkShape& chunk, const Lines& lines, std::span<const int32_t> columns_before,
                   const RowBlock& rows) {
    const auto& begin = chunk.block_begin;
    int64_t keys = columns_before[static_cast<size_t>(rows.block)];
    const auto add_whole = [&](int64_t block) {
        const auto at = static_cast<size_t>(block);
        keys += begin[at + 1] - begin[at] - (columns_before[at + 1] - columns_before[at]);
    };
    for (const int32_t band : lines.bands) {
        if (band > rows.block) break;
        if (band > 0) add_whole(rows.block - band);
    }
    for (const Lines::Block& each : rows.key_blocks) {
        const int32_t band = each.row_block - each.key_block;
        if (band > 0 && !std::ranges::binary_search(lines.bands, band)) add_whole(each.key_block);
    }
    const int64_t own = begin[static_cast<size_t>(rows.block)];
    const int64_t count = rows.last_key - rows.first_key + 1;
    return count * keys + (rows.first_key + 1 - own + rows.last_key + 1 - own) * count / 2;
}

/// How many columns lie before each block, and before the end: one entry more than blocks.
void count_columns(const ChunkShape& chunk, const Lines& lines, std::vector<int32_t>& before) {
    before.resize(chunk.block_begin.size());
    size_t column = 0;
    for (size_t block = 0; block < chunk.block_begin.size(); ++block) {
        while (column < lines.columns.size() && lines.columns[column] < chunk.block_begin[block]) ++column;
        before[block] = static_cast<int32_t>(column);
    }
}

/// Entries that rows ending with the keys [first, last] see.
int64_t causal_entries(int64_t first, int64_t last) {
    return (first + 1 + last + 1) * (last - first + 1) / 2;
}

}  // namespace

int64_t ChunkShape::block_of(int64_t key) const {
    assert(key >= 0 && key < keys());
    return std::ranges::upper_bound(block_begin, key) - block_begin.begin() - 1;
}

void Lines::clear() {
    columns.clear();
    bands.clear();
    blocks.clear();
    dense_rows = 0;
}

Coverage coverage(const ChunkShape& chunk, const Lines& lines) {
    if (chunk.rows == 0) return {};
    const int64_t keys = chunk.keys();
    Coverage result{.causal = causal_entries(chunk.first_row, keys - 1)};
    const int64_t sparse_end = keys - std::min(lines.dense_rows, chunk.rows);
    result.covered = causal_entries(sparse_end, keys - 1);
    thread_local std::vector<int32_t> columns_before;
    count_columns(chunk, lines, columns_before);
    auto next_block = lines.blocks.begin();
    for (RowBlock rows{.block = chunk.block_of(chunk.first_row), .first_key = chunk.first_row};
         rows.first_key < sparse_end; ++rows.block, rows.first_key = rows.last_key + 1) {
        rows.last_key = std::min<int64_t>(chunk.block_begin[static_cast<size_t>(rows.block) + 1], sparse_end) - 1;
        while (next_block != lines.blocks.end() && next_block->row_block < rows.block) ++next_block;
        auto end = next_block;
        while (end != lines.blocks.end() && end->row_block == rows.block) ++end;
        rows.key_blocks = {next_block, end};
        result.covered += covered_in(chunk, lines, columns_before, rows);
    }
    return result;
}

std::vector<uint8_t> attended_keys(const ChunkShape& chunk, const Lines& lines, int64_t row) {
    const int64_t key = chunk.first_row + row, own = chunk.block_of(key);
    std::vector<uint8_t> attended(static_cast<size_t>(key) + 1, row >= chunk.rows - lines.dense_rows ? 1 : 0);
    const auto add_block = [&](int64_t block) {
        const auto at = static_cast<size_t>(block);
        const auto begin = attended.begin();
        std::fill(begin + chunk.block_begin[at], begin + std::min<int64_t>(chunk.block_begin[at + 1], key + 1),
                  uint8_t{1});
    };
    add_block(own);
    for (const int32_t band : lines.bands) {
        if (band <= own) add_block(own - band);
    }
    for (const Lines::Block& block : lines.blocks) {
        if (block.row_block == own && block.key_block <= own) add_block(block.key_block);
    }
    for (const int32_t column : lines.columns) {
        if (column > key) break;
        attended[static_cast<size_t>(column)] = 1;
    }
    return attended;
}

}  // namespace rondo
