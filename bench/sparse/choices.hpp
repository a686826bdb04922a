#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/ops.hpp"
#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

/// Choices that no method made: random, of a given size, and the same in every run.
namespace rondo::bench {

/// `count` of the numbers [0, population), ascending.
std::vector<int32_t> some_of(int64_t population, int64_t count, std::mt19937_64& random);

/// Columns and bands, each of which alone covers as much as the others, near `density` together.
Lines random_lines(const ChunkShape& chunk, double density, std::mt19937_64& random);
/// For each row block, its own block and others before it, near `density`.
Lines random_blocks(const ChunkShape& chunk, double density, std::mt19937_64& random);
/// All that rows see, as bands, as blocks or as columns.
Lines all_lines(const ChunkShape& chunk, int by);

/// Keys that a row of the chunk attends to.
std::vector<int32_t> keys_of_row(const ChunkShape& chunk, const Lines& lines, int64_t row);

/// The lines of all heads as a kernel reads them.
class LinesOfHeads {
public:
    explicit LinesOfHeads(std::span<const Lines> heads);
    LineTables tables() const;

private:
    std::vector<int32_t> column_begin_{0}, columns_, band_begin_{0}, bands_, block_begin_{0}, blocks_, dense_rows_;
};

}  // namespace rondo::bench
