#pragma once

#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

inline constexpr int score_lines_max = 32;

/// Floats from line to line for so many keys: whole cache lines, and an odd number of them, or lines would lie a power
/// of two apart and share the few ways of a set.
inline int64_t score_stride(int64_t keys) {
    constexpr int64_t line = 16;
    return ((keys + line - 1) / line | 1) * line;
}

/// Some rows in some query heads of one KV head. Line i is row first_row + i / heads, query head first_head + i %
/// heads.
struct ScoreTile {
    const ScoreArgs* args = nullptr;
    int first_head = 0;
    int heads = 1;
    int64_t first_row = 0;
    int lines = 0;  ///< at most score_lines_max

    int kv_head() const { return first_head / (args->heads / args->kv.heads); }
    int64_t row(int line) const { return first_row + line / heads; }
    int head(int line) const { return first_head + line % heads; }
    /// Keys that a line sees.
    int64_t visible(int line) const {
        const int64_t seen = int64_t{args->row_keys[row(line)]} + 1;
        return seen < args->keys ? seen : args->keys;
    }
};

/// weights[line · stride + key] = the softmax of each line over the keys it sees, zero beyond.
void score_tile(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);

/// bf16 and i8 KV with AMX tiles; head_dim a multiple of 32.
void score_tile_amx(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);
/// The same with AVX-512's products of bf16 pairs.
void score_tile_bf16(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride);
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
/// sums[key] = Σ of the lines' weights · factor.
void sum_lines(const float* weights, int64_t stride, int lines, int64_t keys, float factor, float* sums);

}  // namespace rondo::cpu
