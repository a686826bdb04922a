#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

inline constexpr float log2_e = 1.44269504F;
/// Where a running maximum starts and what a masked score becomes: finite, so that no subtraction makes a NaN, and so
/// far apart that a masked score weighs nothing even where nothing else was seen.
inline constexpr float nothing_seen = -1e30F;
inline constexpr float masked_score = -3e38F;

/// Up to 16 keys of one KV head in one atom.
struct TileKeys {
    const std::byte* atom = nullptr;
    int32_t first = 0;     ///< number of token 0, or `everyone_sees`
    uint16_t allowed = 0;  ///< bit t: token t counts
    uint16_t filled = 0;   ///< tokens that hold something
};
/// As the number of an atom's first key: so early that every row sees all 16.
inline constexpr int32_t everyone_sees = -kv_block_tokens;

/// One piece of attention: some rows of a sequence, some query heads of one KV head, a run of keys. Query i is row
/// i / group, query head first_head + i % group.
struct AttendTile {
    Tensor q;  ///< the tile's rows, all heads
    KvAtom atom;
    int first_head = 0;
    int group = 1;
    float scale = 1.0F;
    Bf16Way bf16 = Bf16Way::floats;  ///< the device's
    bool many_rows = false;          ///< in the sequence; their bits may differ from those of few
    bool of_lines = false;           ///< a prompt's, 16 of one head: their bits may differ likewise
    int64_t first_visible = 0;       ///< keys that the tile's first row sees; each further row sees one more
    const TileKeys* keys = nullptr;
    int64_t count = 0;   ///< atoms of the run
    int64_t behind = 0;  ///< further ones in `keys` behind the run, which this thread may attend to next

    int64_t queries() const { return q.rows * group; }
    int head_dim() const { return atom.head_dim; }
    int64_t visible(int64_t query) const { return first_visible + query / group; }
};

/// The result before division: for each query Σ 2^(s − max) · v, the maximum of the scores s = q·k · scale · log2(e),
/// and Σ 2^(s − max). Arrays hold queries rounded up to 16.
struct AttendSums {
    float* weighted = nullptr;  ///< [queries, d]
    float* max = nullptr;       ///< [queries]
    float* total = nullptr;     ///< [queries]
};

/// Memory for the sums of `queries` queries (rounded up to 16) at `base`, as `sums_floats` of them take.
AttendSums place_sums(float* base, int64_t queries, int64_t first_query, int64_t d);
inline int64_t sums_floats(int64_t queries, int64_t d) {
    return queries * (d + 2);
}

/// Attends to the tile's keys with the fastest kernel there is for it.
void attend_tile(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);
/// Combines the sums of a tile's splits in order, divides, and writes them to the tile's rows of `out`, from `row` on.
void write_tile(const AttendTile& tile, int splits, const AttendSums& sums, const Tensor& out, int64_t row);

/// bf16 and i8 KV with AMX tiles: scores of 16 keys × 8 or 16 queries at a time, weights rounded to bf16. head_dim is a
/// multiple of 32. Keys of the same batch that a row must not see get a weight of zero. Where the model has failed and
/// a value is not finite, it therefore reaches earlier rows of its block. Unfilled slots never do.
void attend_tile_amx(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);
/// The same with AVX-512's products of bf16 pairs.
void attend_tile_bf16(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);

/// The same with fused multiply-adds of floats, for processors with AVX-512 whose products of pairs are slow, or that
/// have none; weights are not rounded.
void attend_tile_floats(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);

/// Any KV type and head_dim, in f32. Keys that do not count get a weight of zero here too, so values that are not
/// finite spread as above.
void attend_tile_portable(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);
/// The same for few rows, whose queries would leave most lanes of a register empty.
void attend_tile_few_rows(const AttendTile& tile, Scratch& scratch, const AttendSums& sums);

}  // namespace rondo::cpu
