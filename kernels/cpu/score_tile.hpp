#pragma once

#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

inline constexpr int score_queries_max = 32;

/// Floats from the scores of one query to those of the next: an odd number of whole cache lines. A power of two would
/// make all queries share the few ways of one cache set.
inline int64_t score_stride(int64_t keys) {
    constexpr int64_t cache_line = 16;
    return ((keys + cache_line - 1) / cache_line | 1) * cache_line;
}

/// Some rows in some query heads of one KV head. Query i is row first_row + i / heads, query head first_head + i %
/// heads.
struct ScoreTile {
    const ScoreArgs* args = nullptr;
    int first_head = 0;
    int heads = 1;
    int64_t first_row = 0;
    int queries = 0;                 ///< at most score_queries_max
    Bf16Way bf16 = Bf16Way::floats;  ///< the device's

    int kv_head() const { return first_head / (args->heads / args->kv.heads); }
    int64_t row(int query) const { return first_row + query / heads; }
    int head(int query) const { return first_head + query % heads; }
    /// Keys that a query sees.
    int64_t visible(int query) const {
        const int64_t seen = int64_t{args->row_keys[row(query)]} + 1;
        return seen < args->keys ? seen : args->keys;
    }
};

/// weights[query · stride + key] = the softmax of each query over the keys it sees, zero beyond.
void score_tile(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);

/// bf16 and i8 KV with AMX tiles; head_dim a multiple of 32.
void score_tile_amx(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);
/// The same with AVX-512's products of bf16 pairs.
void score_tile_bf16(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);
/// The same in floats, with AVX-512.
void score_tile_floats(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);
/// Any KV type and head_dim, in f32.
void score_tile_portable(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);
/// One row in the query heads of one KV head against keys that were chosen, atom by atom.
struct ScoreAtoms {
    Tensor q;
    KvAtom atom;
    int first_head = 0;
    int heads = 1;
    float scale = 1.0F;
    const TileKeys* keys = nullptr;
    int64_t count = 0;
};
/// weights[head · 16 count + column] = the softmax of each head over the keys that count, zero elsewhere.
void score_atoms(const ScoreAtoms& tile, Scratch& scratch, float* weights);
/// sums[key] = Σ of the queries' weights · factor.
void sum_queries(const float* weights, int64_t stride, int queries, int64_t keys, float factor, float* sums);

}  // namespace rondo::cpu
