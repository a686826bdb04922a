#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/scratch.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

inline constexpr float log2_e = 1.44269504F;
/// Where a running maximum starts and what a masked score becomes: finite, so that no subtraction makes a NaN, and so
/// far apart that a masked score weighs nothing even where nothing else was seen.
inline constexpr float nothing_seen = -1e30F;
inline constexpr float masked_score = -3e38F;

/// One piece of attention: some rows of a sequence, the query heads of one KV head, a run of that sequence's blocks.
/// Line i is row i / group, query head kv_head·group + i % group.
struct AttendTile {
    Tensor q;  ///< the tile's rows, all heads
    KvLayer kv;
    int kv_head = 0;
    int group = 1;
    float scale = 1.0F;
    int64_t first_visible = 0;        ///< keys that the tile's first row sees; each further row sees one more
    const int32_t* blocks = nullptr;  ///< the run: ids, and where each begins (one entry more)
    const int32_t* block_begin = nullptr;
    int64_t block_count = 0;
    int64_t blocks_behind = 0;  ///< further blocks of the sequence behind the run, which this thread may attend to next

    int64_t lines() const { return q.rows * group; }
    int head_dim() const { return kv.atom.head_dim; }
    int64_t visible(int64_t line) const { return first_visible + line / group; }
};

/// The result before division: for each line Σ 2^(s − max) · v, the maximum of the scores s = q·k · scale · log2(e),
/// and Σ 2^(s − max). Arrays hold lines rounded up to 16.
struct AttendSums {
    float* weighted = nullptr;  ///< [lines, d]
    float* max = nullptr;       ///< [lines]
    float* total = nullptr;     ///< [lines]
};

/// bf16 and i8 KV with AMX tiles: scores of 16 keys × 8 or 16 lines at a time, weights rounded to bf16. head_dim is a
/// multiple of 32. Keys of the same batch that a row must not see get a weight of zero, so a value there that is not
/// finite (a model that has already failed) reaches earlier rows of its block; unfilled slots never do.
void attend_tile_amx(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);

/// Any KV type and head_dim, in f32.
void attend_tile_portable(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);

}  // namespace rondo::cpu
