#include <algorithm>
#include <cassert>
#include <cstring>

#include "config/checked.hpp"
#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/read_kv.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t chunk_blocks = 8;  // keys between two looks at the running maximum
constexpr int64_t chunk_keys = chunk_blocks * kv_block_tokens;
constexpr int64_t lines_per_group = 16;  // lines in a tile

/// The atoms of one chunk, all in bf16 layout, and which of their tokens are keys of this tile.
struct Chunk {
    const std::byte* k[chunk_blocks];  // [16][d]
    const std::byte* v[chunk_blocks];  // [8][d][2]
    int64_t first[chunk_blocks];       // key index of token 0
    int64_t filled[chunk_blocks];
    int64_t count = 0;
};

/// Buffers of one tile of work.
struct Buffers {
    uint16_t* q;        // [groups][d/32][16 pairs][16 lines][2]
    float* scores;      // [chunk_keys][16]
    uint16_t* weights;  // [16][chunk_keys]
    std::byte* staged;  // [chunk_blocks] atoms in bf16: i8 atoms, and those with unfilled slots
    size_t bytes;
};

Buffers place(Scratch& scratch, int64_t groups, int64_t d) {
    const auto q_bytes = static_cast<size_t>(groups * lines_per_group * d) * sizeof(uint16_t);
    const auto score_bytes = static_cast<size_t>(chunk_keys * lines_per_group) * sizeof(float);
    const auto weight_bytes = static_cast<size_t>(lines_per_group * chunk_keys) * sizeof(uint16_t);
    const auto staged_bytes = static_cast<size_t>(chunk_blocks) * KvAtom{DType::bf16, static_cast<int>(d)}.bytes();
    auto* const base = scratch.get(q_bytes + score_bytes + weight_bytes + staged_bytes);
    Buffers buffers;
    buffers.q = reinterpret_cast<uint16_t*>(base);
    buffers.scores = reinterpret_cast<float*>(base + q_bytes);
    buffers.weights = reinterpret_cast<uint16_t*>(base + q_bytes + score_bytes);
    buffers.staged = base + q_bytes + score_bytes + weight_bytes;
    return buffers;
}

/// Queries as tiles of pairs: element (line, c) at [line/16][c/32][(c%32)/2][line%16][c%2]. Lines that fill up are
/// zero.
void pack_queries(const AttendTile& tile, int64_t groups, uint16_t* packed) {
    const int64_t d = tile.head_dim();
    uint16_t converted[1024];
    for (int64_t line = 0; line < groups * lines_per_group; ++line) {
        const uint16_t* from = converted;
        if (line >= tile.lines()) {
            std::fill(converted, converted + d, uint16_t{0});
        } else {
            const int64_t column = (tile.kv_head * tile.group + line % tile.group) * d;
            if (tile.q.dtype == DType::bf16) {
                from = tile.q.row<const uint16_t>(line / tile.group) + column;
            } else {
                convert_row(tile.q.row<const float>(line / tile.group) + column, converted, d);
            }
        }
        uint16_t* const group = packed + line / lines_per_group * lines_per_group * d + line % lines_per_group * 2;
        for (int64_t c = 0; c < d; c += 2) std::memcpy(group + c * lines_per_group, from + c, 2 * sizeof(uint16_t));
    }
}

/// A copy of an atom in bf16 whose unfilled tokens are zero: whatever lies there must not meet a weight of zero as a
/// NaN.
void stage_atom(const KvAtom& layout, const std::byte* atom, int64_t filled, std::byte* staged) {
    const KvAtom bf16{DType::bf16, layout.head_dim};
    const int64_t d = layout.head_dim;
    auto* const k = reinterpret_cast<uint16_t*>(staged);
    auto* const v = reinterpret_cast<uint16_t*>(staged + bf16.half_bytes());
    float k_row[1024], v_row[1024];
    std::memset(staged, 0, bf16.bytes());
    for (int t = 0; t < filled; ++t) {
        read_token(layout, atom, t, k_row, v_row);
        convert_row(k_row, k + t * d, d);
        for (int64_t c = 0; c < d; ++c) v[t / 2 * 2 * d + 2 * c + t % 2] = bf16_from_float(v_row[c]);
    }
}

Chunk gather_chunk(const AttendTile& tile, int64_t block, const Buffers& buffers) {
    const KvAtom bf16{DType::bf16, tile.head_dim()};
    Chunk chunk;
    for (; chunk.count < chunk_blocks && block < tile.block_count; ++block, ++chunk.count) {
        const int64_t i = chunk.count;
        const std::byte* atom = tile.kv.at(tile.blocks[block], tile.kv_head);
        chunk.first[i] = tile.block_begin[block];
        chunk.filled[i] = tile.block_begin[block + 1] - tile.block_begin[block];
        if (tile.kv.atom.dtype == DType::i8 || chunk.filled[i] < kv_block_tokens) {
            std::byte* const staged = buffers.staged + static_cast<size_t>(i) * bf16.bytes();
            stage_atom(tile.kv.atom, atom, chunk.filled[i], staged);
            atom = staged;
        }
        chunk.k[i] = atom;
        chunk.v[i] = atom + bf16.half_bytes();
    }
    return chunk;
}

/// Tiles 0 and 1 scores [16 keys][16 lines], 2 and 3 keys [16][32 of d], 4 and 5 queries [16 pairs][16 lines][2].
RONDO_AMX void configure_scores() {
    TileConfig config;
    std::fill(config.rows, config.rows + 8, uint8_t{tile_rows});
    load_config(config);
}

/// Tile 0 weights [lines][16 keys], 1–3 values [8 pairs][16 of d][2], 4–7 sums [lines][16 of d].
RONDO_AMX void configure_values(int64_t lines) {
    TileConfig config;
    const auto used = static_cast<uint8_t>(lines);
    constexpr uint8_t pairs = kv_block_tokens / 2;
    const uint8_t rows[8] = {used, pairs, pairs, pairs, used, used, used, used};
    std::memcpy(config.rows, rows, sizeof rows);
    config.row_bytes[0] = kv_block_tokens * sizeof(uint16_t);
    load_config(config);
}

/// scores[key][line] = q·k of one group of 16 lines.
RONDO_AMX void compute_scores(const Chunk& chunk, const uint16_t* q, int64_t d, float* scores) {
    constexpr int64_t q_tile = tile_inputs * lines_per_group;
    for (int64_t b = 0; b < chunk.count; ++b) {
        _tile_zero(0);
        for (int64_t c = 0; c < d; c += tile_inputs) {
            _tile_loadd(2, chunk.k[b] + c * sizeof(uint16_t), d * sizeof(uint16_t));
            _tile_loadd(4, q + c / tile_inputs * q_tile, lines_per_group * 2 * sizeof(uint16_t));
            _tile_dpbf16ps(0, 2, 4);
        }
        _tile_stored(0, scores + b * kv_block_tokens * lines_per_group, lines_per_group * sizeof(float));
    }
}

/// 2^x for x ≤ 0, within 2e-7; 0 far below.
RONDO_AMX inline __m512 exp2_lanes(__m512 x) {
    const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 part = _mm512_sub_ps(x, whole);
    __m512 p = _mm512_set1_ps(1.5403530e-4F);
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(1.3333558e-3F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(9.6181291e-3F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(5.5504109e-2F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(2.4022651e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(6.9314718e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(1.0F));
    return _mm512_scalef_ps(p, whole);
}

/// Scales the scores in place and masks what a line must not see; returns the maximum by line.
RONDO_AMX __m512 scale_and_mask(const Chunk& chunk, __m512i visible, int64_t visible_min, float scale, float* scores) {
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 max = _mm512_set1_ps(nothing_seen);
    for (int64_t b = 0; b < chunk.count; ++b) {
        const bool whole = chunk.filled[b] == kv_block_tokens && chunk.first[b] + kv_block_tokens <= visible_min;
        for (int64_t t = 0; t < kv_block_tokens; ++t) {
            float* const at = scores + (b * kv_block_tokens + t) * lines_per_group;
            __m512 s = _mm512_mul_ps(_mm512_load_ps(at), factor);
            if (!whole) {
                const __m512i key = _mm512_set1_epi32(static_cast<int32_t>(chunk.first[b] + t));
                const __mmask16 seen = t < chunk.filled[b] ? _mm512_cmplt_epi32_mask(key, visible) : __mmask16{0};
                s = _mm512_mask_mov_ps(_mm512_set1_ps(masked_score), seen, s);
            }
            _mm512_store_ps(at, s);
            max = _mm512_max_ps(max, s);
        }
    }
    return max;
}

/// Eight registers of pairs [pair][16 lines] become 16 rows of 8 pairs, 32 bytes each, `stride` bytes apart.
RONDO_AMX void store_transposed(__m512i (&p)[8], std::byte* to, int64_t stride) {
    __m512i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_epi32(p[i], p[i + 1]);      // lines 0 1 | 4 5 | 8 9 | 12 13, pairs i, i+1
        a[i + 1] = _mm512_unpackhi_epi32(p[i], p[i + 1]);  // lines 2 3 | 6 7 | …
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);          // line 0 | 4 | 8 | 12, pairs i … i+3
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);      // line 1 | 5 | …
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);  // line 2 | …
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);  // line 3 | …
    }
    for (int i = 0; i < 4; ++i) {
        // Quarter j of b[i] and b[i + 4] are the two halves of line 4j + i.
        const __m512i low = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x44);   // lines i, i+4: first halves, then second
        const __m512i high = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xee);  // lines i+8, i+12
        const __m512i low_rows = _mm512_shuffle_i32x4(low, low, 0xd8);
        const __m512i high_rows = _mm512_shuffle_i32x4(high, high, 0xd8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * stride), _mm512_castsi512_si256(low_rows));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 4) * stride), _mm512_extracti64x4_epi64(low_rows, 1));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 8) * stride), _mm512_castsi512_si256(high_rows));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 12) * stride),
                            _mm512_extracti64x4_epi64(high_rows, 1));
    }
}

/// weights[line][key] = 2^(score − max) in bf16; returns their sums by line.
RONDO_AMX __m512 compute_weights(const Chunk& chunk, const float* scores, __m512 max, uint16_t* weights) {
    const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                                6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512 total = _mm512_setzero_ps();
    for (int64_t b = 0; b < chunk.count; ++b) {
        __m512i pairs[8];
        for (int i = 0; i < 8; ++i) {
            const float* const at = scores + (b * kv_block_tokens + 2 * i) * lines_per_group;
            const __m512 even = exp2_lanes(_mm512_sub_ps(_mm512_load_ps(at), max));
            const __m512 odd = exp2_lanes(_mm512_sub_ps(_mm512_load_ps(at + lines_per_group), max));
            total = _mm512_add_ps(total, _mm512_add_ps(even, odd));
            pairs[i] = _mm512_permutexvar_epi16(interleave, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
        }
        store_transposed(pairs, reinterpret_cast<std::byte*>(weights + b * kv_block_tokens),
                         chunk_keys * sizeof(uint16_t));
    }
    return total;
}

/// weighted[line][c] += Σ_key weights · v, 64 channels at a time.
RONDO_AMX void add_values(const Chunk& chunk, const uint16_t* weights, int64_t d, float* weighted) {
    const int64_t v_stride = d * 2 * static_cast<int64_t>(sizeof(uint16_t));
    const int64_t sum_stride = d * static_cast<int64_t>(sizeof(float));
    int64_t c = 0;
    for (; c + 64 <= d; c += 64) {
        _tile_loadd(4, weighted + c, sum_stride);
        _tile_loadd(5, weighted + c + 16, sum_stride);
        _tile_loadd(6, weighted + c + 32, sum_stride);
        _tile_loadd(7, weighted + c + 48, sum_stride);
        for (int64_t b = 0; b < chunk.count; ++b) {
            const std::byte* const v = chunk.v[b] + c * 2 * sizeof(uint16_t);
            _tile_loadd(0, weights + b * kv_block_tokens, chunk_keys * sizeof(uint16_t));
            _tile_loadd(1, v, v_stride);
            _tile_dpbf16ps(4, 0, 1);
            _tile_loadd(2, v + 64, v_stride);
            _tile_dpbf16ps(5, 0, 2);
            _tile_loadd(3, v + 128, v_stride);
            _tile_dpbf16ps(6, 0, 3);
            _tile_loadd(1, v + 192, v_stride);
            _tile_dpbf16ps(7, 0, 1);
        }
        _tile_stored(4, weighted + c, sum_stride);
        _tile_stored(5, weighted + c + 16, sum_stride);
        _tile_stored(6, weighted + c + 32, sum_stride);
        _tile_stored(7, weighted + c + 48, sum_stride);
    }
    for (; c < d; c += 16) {
        _tile_loadd(4, weighted + c, sum_stride);
        for (int64_t b = 0; b < chunk.count; ++b) {
            _tile_loadd(0, weights + b * kv_block_tokens, chunk_keys * sizeof(uint16_t));
            _tile_loadd(1, chunk.v[b] + c * 2 * sizeof(uint16_t), v_stride);
            _tile_dpbf16ps(4, 0, 1);
        }
        _tile_stored(4, weighted + c, sum_stride);
    }
}

/// Lines whose maximum rose: what they have summed so far shrinks.
RONDO_AMX void rescale(float* weighted, int64_t lines, int64_t d, __m512 factors) {
    alignas(64) float factor[lines_per_group];
    _mm512_store_ps(factor, factors);
    for (int64_t line = 0; line < lines; ++line) {
        if (factor[line] == 1.0F) continue;
        const __m512 f = _mm512_set1_ps(factor[line]);
        float* const row = weighted + line * d;
        for (int64_t c = 0; c < d; c += 16) _mm512_storeu_ps(row + c, _mm512_mul_ps(_mm512_loadu_ps(row + c), f));
    }
}

/// The lines of one group against one chunk.
RONDO_AMX void attend_group(const AttendTile& tile, const Chunk& chunk, int64_t group, const Buffers& buffers,
                            const AttendSums& sums) {
    const int64_t d = tile.head_dim();
    const int64_t first_line = group * lines_per_group;
    const int64_t lines = std::min(lines_per_group, tile.lines() - first_line);
    if (chunk.first[0] >= tile.visible(first_line + lines - 1)) return;  // all later than every line
    alignas(64) int32_t visible[lines_per_group];
    for (int64_t i = 0; i < lines_per_group; ++i) {
        visible[i] = static_cast<int32_t>(tile.visible(first_line + std::min(i, lines - 1)));
    }
    configure_scores();
    compute_scores(chunk, buffers.q + first_line * d, d, buffers.scores);
    float* const max_at = sums.max + first_line;
    float* const total_at = sums.total + first_line;
    const __m512 before = _mm512_loadu_ps(max_at);
    const __m512 max = _mm512_max_ps(
        before, scale_and_mask(chunk, _mm512_load_si512(visible), visible[0], tile.scale * log2_e, buffers.scores));
    const __m512 total = compute_weights(chunk, buffers.scores, max, buffers.weights);
    const __m512 factor = exp2_lanes(_mm512_sub_ps(before, max));
    _mm512_storeu_ps(max_at, max);
    _mm512_storeu_ps(total_at, _mm512_fmadd_ps(_mm512_loadu_ps(total_at), factor, total));
    float* const weighted = sums.weighted + first_line * d;
    rescale(weighted, lines, d, factor);
    configure_values(lines);
    add_values(chunk, buffers.weights, d, weighted);
}

}  // namespace

RONDO_AMX void attend_tile_amx(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    const int64_t d = tile.head_dim();
    const int64_t groups = ceil_div(tile.lines(), lines_per_group);
    assert(d % tile_inputs == 0 && d <= 1024);
    const Buffers buffers = place(scratch, groups, d);
    pack_queries(tile, groups, buffers.q);
    std::fill_n(sums.max, groups * lines_per_group, nothing_seen);
    std::fill_n(sums.total, groups * lines_per_group, 0.0F);
    std::fill_n(sums.weighted, groups * lines_per_group * d, 0.0F);
    for (int64_t block = 0; block < tile.block_count; block += chunk_blocks) {
        const Chunk chunk = gather_chunk(tile, block, buffers);
        for (int64_t group = 0; group < groups; ++group) attend_group(tile, chunk, group, buffers, sums);
    }
    _tile_release();
}

}  // namespace rondo::cpu
