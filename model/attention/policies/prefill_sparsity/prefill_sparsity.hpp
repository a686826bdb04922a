#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "model/attention/policies/prefill_sparsity/head_patterns.hpp"

namespace rondo {

/// A chunk of new tokens and the keys its rows may see. Keys are numbered in the sequence, blocks in the sequence too
/// (block i holds keys [block_begin[i], block_begin[i + 1])); a row's own block is the one its key lies in.
struct ChunkShape {
    int64_t first_row = 0;  ///< key of the chunk's first row; row r is key first_row + r and sees the keys up to itself
    int64_t rows = 0;
    std::span<const int32_t> block_begin;  ///< with one entry more; the last is keys()

    int64_t keys() const { return first_row + rows; }
    int64_t blocks() const { return static_cast<int64_t>(block_begin.size()) - 1; }
    int64_t block_of(int64_t key) const;
};

/// What some rows of a chunk attend to in one query head, exactly.
struct SampledRows {
    std::span<const int32_t> rows;   ///< of the chunk, ascending
    std::span<const float> weights;  ///< [rows, keys]: the softmax over all keys a row sees, zero beyond
    int64_t stride = 0;              ///< of weights, from row to row; 0: as many as there are keys
    /// [row blocks, blocks], from the block of the chunk's first row on: the mean of a row block's new queries times
    /// the mean of a block's keys, scaled as attention scales; beyond a row block's own nothing is read. Where
    /// `sampling` asks for it.
    std::span<const float> block_scores = {};
    int layer = 0;
    int head = 0;
};

/// Which entries of a chunk's attention one query head computes: the union of all that is named here, as far as a row
/// sees it. What the kernel covers is the meaning: a band is a diagonal of blocks, a row and all keys of the block
/// that lies `band` blocks before its own.
struct Lines {
    std::vector<int32_t> columns;  ///< keys, ascending
    std::vector<int32_t> bands;    ///< distances in blocks, ascending; 0, a row's own block, is always there
    /// Single blocks for query-aware methods: (row block, key block), both numbered in the sequence, in order.
    struct Block {
        int32_t row_block = 0;
        int32_t key_block = 0;
        auto operator<=>(const Block&) const = default;
    };
    std::vector<Block> blocks;
    int64_t dense_rows = 0;  ///< the chunk's last rows that attend to everything

    void clear();
};

/// Entries that `lines` cover of all that the chunk's rows see: its density, exactly as the kernel computes it.
struct Coverage {
    int64_t covered = 0;
    int64_t causal = 0;
};
Coverage coverage(const ChunkShape& chunk, const Lines& lines);
/// By key, of those up to itself: 1 where a row of the chunk attends to it.
std::vector<uint8_t> attended_keys(const ChunkShape& chunk, const Lines& lines, int64_t row);

/// Chooses what a chunk's rows attend to, one query head at a time. Plain logic; no state that changes a choice: one
/// object serves all heads and threads.
class PrefillSparsity {
public:
    virtual ~PrefillSparsity() = default;
    /// The rows whose exact weights `select` wants to see: how many, and whether they are spread over the chunk
    /// (sample_rows) or its last ones. None: it asks for no scores.
    struct Sampling {
        int rows = 0;
        int all_up_to = 0;  ///< a chunk of no more rows than this shows all of them
        bool spread = true;
        bool blocks = false;  ///< and what means say of each block
    };
    virtual Sampling sampling() const = 0;
    /// Overwrites `lines`.
    virtual void select(const ChunkShape& chunk, const SampledRows& sampled, Lines& lines) const = 0;
};

/// `count` of a chunk's rows, ascending: one from each of as many equal stretches, the last row among them. The same
/// for the same seed in every layer and on every backend; all of them when there are no more.
std::vector<int32_t> sample_rows(int64_t rows, int count, uint64_t seed);

/// By the name that settings call it; nullptr for dense. The settings have been checked. `patterns` are MInference's.
std::unique_ptr<PrefillSparsity> make_prefill_sparsity(const PrefillAttention& settings, HeadPatterns patterns = {});

}  // namespace rondo
