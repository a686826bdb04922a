#pragma once

#include <algorithm>
#include <cassert>
#include <cstring>

#include "config/checked.hpp"
#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/avx512_bf16.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/stage_kv.hpp"

/// Attention of a tile chunk by chunk. Its two products are scores, and weights times values. Each file that includes
/// this header brings one way to compute them, a class `Products`:
///
///     few_rows_blocks                                            blocks of a chunk where the rows are few
///     widens                                                     whether keys, values and weights are floats to it
///     prepare(layout, chunk)                                     called for a chunk before any group of queries
///     begin<Queries>(), end()                                    called around a tile
///     compute_scores<Queries>(chunk, q, d, ahead, scores)        scores[key][query] = q·k of one group of queries
///     add_values<Queries>(chunk, weights, d, ahead, weighted)    weighted[query][c] += Σ_key weights · v
///
/// Weights are bf16 [blocks][queries][16 keys], or where `widens` floats [keys][queries]. Such a file has no need of
/// bf16 instructions, and says by RONDO_WAY which it needs.
#ifndef RONDO_WAY
#define RONDO_WAY RONDO_BF16
#endif
namespace rondo::cpu {

namespace {

// Blocks between two updates of the running maximum. So few that a chunk stays in L1 for all groups of queries.
constexpr int64_t chunk_blocks_max = 4;
constexpr int64_t chunk_keys_max = chunk_blocks_max * kv_block_tokens;
constexpr int64_t queries_max = 16;  // in a group

/// The atoms of one chunk, all in bf16 layout (where `widens` as they lie), and which of their tokens are keys of this
/// tile.
struct Chunk {
    const std::byte* k[chunk_blocks_max + 1];  // [16][d]; behind the last stands the next chunk's first, if any
    const std::byte* v[chunk_blocks_max];      // [8][d][2]
    int32_t first[chunk_blocks_max];           // number of token 0
    uint32_t allowed[chunk_blocks_max];        // bit t: token t counts
    int64_t filled[chunk_blocks_max];          // tokens that hold something
    int64_t count = 0;
    float* wide = nullptr;  // where `widens`: keys as floats, then values, chunk_keys_max · d of each
};

/// Prefetches the next chunk into L2, a cache line at a time. Each of a chunk's four steps prefetches a quarter of it:
/// a few cache lines between any two tile products or registers of weights. Prefetched all at once, cache lines would
/// wait for each other, and memory would idle afterwards. They come in the order of addresses, because the hardware's
/// own prefetcher then helps.
class Ahead {
public:
    Ahead(const AttendTile& tile, int64_t block, int64_t blocks)
        : tile_(tile),
          block_(block),
          end_block_(std::min(block + blocks, tile.count + tile.behind)),
          bytes_(static_cast<int64_t>(tile.atom.bytes())) {
        next_atom();
    }

    void ask(int64_t cache_lines) {
        if (at_ == nullptr) return;
        for (const std::byte* const end = at_ + cache_lines * 64; at_ != end; at_ += 64) _mm_prefetch(at_, _MM_HINT_T1);
        if (at_ >= end_) next_atom();
    }

private:
    void next_atom() {
        at_ = nullptr;
        if (block_ >= end_block_) return;
        at_ = tile_.keys[block_++].atom;
        end_ = at_ + bytes_;
    }

    const AttendTile& tile_;
    int64_t block_, end_block_, bytes_;
    const std::byte* at_ = nullptr;
    const std::byte* end_ = nullptr;
};
constexpr int64_t cache_lines_each_product = 8;  // a quarter of a bf16 atom over its d / 32 tile products

/// Buffers of one tile, whose queries stand in groups of 8 or 16. A decode row seldom has more than 8, and its softmax
/// then takes half the registers. A query is summed in the same order in both.
struct Buffers {
    uint16_t* q;        // [groups][d/32][16 pairs][queries][2]
    float* scores;      // [keys of a chunk][queries]
    uint16_t* weights;  // [blocks of a chunk][queries][16 keys]; where `widens`, weights take the place of scores
    std::byte* staged;  // [blocks of a chunk] atoms in bf16: i8 atoms, and those with unfilled slots
    float* wide;        // a chunk's keys and values as floats, or nothing
};

Buffers place(Scratch& scratch, int64_t queries, int64_t d, bool widens) {
    const auto q_bytes = static_cast<size_t>(queries * d) * sizeof(uint16_t);
    const auto score_bytes = static_cast<size_t>(chunk_keys_max * queries_max) * sizeof(float);
    const auto weight_bytes = widens ? 0 : static_cast<size_t>(chunk_keys_max * queries_max) * sizeof(uint16_t);
    const size_t staged_bytes = widens ? 0 : chunk_blocks_max * KvAtom{DType::bf16, static_cast<int>(d)}.bytes();
    const auto wide_bytes = widens ? static_cast<size_t>(2 * chunk_keys_max * d) * sizeof(float) : 0;
    auto* const base = scratch.get(q_bytes + score_bytes + weight_bytes + staged_bytes + wide_bytes);
    Buffers buffers;
    buffers.q = reinterpret_cast<uint16_t*>(base);
    buffers.scores = reinterpret_cast<float*>(base + q_bytes);
    buffers.weights = reinterpret_cast<uint16_t*>(base + q_bytes + score_bytes);
    buffers.staged = base + q_bytes + score_bytes + weight_bytes;
    buffers.wide = reinterpret_cast<float*>(buffers.staged + staged_bytes);
    return buffers;
}

/// Queries as tiles of pairs: element (query, c) at [query/Queries][c/32][(c%32)/2][query%Queries][c%2]. Queries that
/// only fill a group up are zero.
template <int Queries>
void pack_queries(const AttendTile& tile, int64_t groups, uint16_t* packed) {
    const int64_t d = tile.head_dim();
    uint16_t converted[1024];
    for (int64_t query = 0; query < groups * Queries; ++query) {
        const uint16_t* from = converted;
        if (query >= tile.queries()) {
            std::fill(converted, converted + d, uint16_t{0});
        } else {
            const int64_t column = (tile.first_head + query % tile.group) * d;
            if (tile.q.dtype == DType::bf16) {
                from = tile.q.row<const uint16_t>(query / tile.group) + column;
            } else {
                convert_row(tile.q.row<const float>(query / tile.group) + column, converted, d);
            }
        }
        uint16_t* const group = packed + query / Queries * Queries * d + query % Queries * 2;
        for (int64_t c = 0; c < d; c += 2) std::memcpy(group + c * Queries, from + c, 2 * sizeof(uint16_t));
    }
}

template <bool widens>
Chunk gather_chunk(const AttendTile& tile, int64_t block, int64_t blocks, const Buffers& buffers) {
    const KvAtom bf16{DType::bf16, tile.head_dim()};
    Chunk chunk;
    chunk.wide = buffers.wide;
    for (; chunk.count < blocks && block < tile.count; ++block, ++chunk.count) {
        const int64_t i = chunk.count;
        const TileKeys& keys = tile.keys[block];
        const std::byte* atom = keys.atom;
        chunk.first[i] = keys.first;
        chunk.allowed[i] = keys.allowed;
        chunk.filled[i] = keys.filled;
        if constexpr (!widens) {
            if (tile.atom.dtype == DType::i8 || keys.filled < kv_block_tokens) {
                std::byte* const staged = buffers.staged + static_cast<size_t>(i) * bf16.bytes();
                stage_atom(tile.atom, atom, keys.filled, staged);
                atom = staged;
            }
        }
        chunk.k[i] = atom;
        chunk.v[i] = atom + bf16.half_bytes();
    }
    chunk.k[chunk.count] = block < tile.count + tile.behind ? tile.keys[block].atom : chunk.k[0];
    return chunk;
}

/// The upper and the lower eight lanes, swapped.
RONDO_WAY inline __m512 swap_halves(__m512 x) {
    return _mm512_shuffle_f32x4(x, x, 0x4e);
}

/// The greatest score by query; scores that a query must not see are masked. Register r of a block holds key r, or keys
/// 2r and 2r + 1 with eight queries.
template <int Queries>
RONDO_WAY __m512 mask_and_find_maxima(const Chunk& chunk, __m512i visible, int64_t visible_min, int64_t d, Ahead& ahead,
                                      float* scores) {
    constexpr int keys_each = 16 / Queries;
    const __m512i lane_key =
        _mm512_mask_set1_epi32(_mm512_setzero_si512(), Queries == 8 ? __mmask16{0xff00} : __mmask16{0}, 1);
    __m512 max = _mm512_set1_ps(masked_score);
    for (int64_t b = 0; b < chunk.count; ++b) {
        float* const block = scores + b * kv_block_tokens * Queries;
        if (chunk.allowed[b] != 0xffff || chunk.first[b] + kv_block_tokens > visible_min) {
            const __m512i allowed = _mm512_set1_epi32(static_cast<int32_t>(chunk.allowed[b]));
            const __m512i first = _mm512_set1_epi32(chunk.first[b]);
            for (int r = 0; r < Queries; ++r) {
                const __m512i token = _mm512_add_epi32(lane_key, _mm512_set1_epi32(r * keys_each));
                const __m512i key = _mm512_add_epi32(first, token);
                const __m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), token);
                const __mmask16 seen = _mm512_test_epi32_mask(allowed, bit) & _mm512_cmplt_epi32_mask(key, visible);
                _mm512_mask_store_ps(block + 16 * r, static_cast<__mmask16>(~seen), _mm512_set1_ps(masked_score));
            }
        }
        for (int r = 0; r < Queries; ++r) max = _mm512_max_ps(max, _mm512_load_ps(block + 16 * r));
        ahead.ask(d / 4);
    }
    return Queries == 8 ? _mm512_max_ps(max, swap_halves(max)) : max;
}

/// Eight registers of pairs [pair][16 queries] become 16 rows of 8 pairs, 32 bytes each, `stride` bytes apart.
RONDO_WAY inline void store_transposed(__m512i (&p)[8], std::byte* to, int64_t stride) {
    __m512i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_epi32(p[i], p[i + 1]);      // queries 0 1 | 4 5 | 8 9 | 12 13, pairs i, i+1
        a[i + 1] = _mm512_unpackhi_epi32(p[i], p[i + 1]);  // queries 2 3 | 6 7 | …
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);          // query 0 | 4 | 8 | 12, pairs i … i+3
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);      // query 1 | 5 | …
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);  // query 2 | …
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);  // query 3 | …
    }
    for (int i = 0; i < 4; ++i) {
        // Quarter j of b[i] and b[i + 4] are the two halves of query 4j + i.
        const __m512i low = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x44);   // queries i, i+4: first halves, then second
        const __m512i high = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xee);  // queries i+8, i+12
        const __m512i low_rows = _mm512_shuffle_i32x4(low, low, 0xd8);
        const __m512i high_rows = _mm512_shuffle_i32x4(high, high, 0xd8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * stride), _mm512_castsi512_si256(low_rows));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 4) * stride), _mm512_extracti64x4_epi64(low_rows, 1));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 8) * stride), _mm512_castsi512_si256(high_rows));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 12) * stride),
                            _mm512_extracti64x4_epi64(high_rows, 1));
    }
}

/// Four registers of weights [4 keys][8 queries] become eight rows of 16 keys.
RONDO_WAY inline void store_transposed(const __m512i (&p)[4], std::byte* to) {
    // By query, four keys each: query i at 2i and query i + 4 at 2i + 1, so that what follows leaves them in order.
    const __m512i by_query = _mm512_set_epi16(31, 23, 15, 7, 27, 19, 11, 3, 30, 22, 14, 6, 26, 18, 10, 2, 29, 21, 13, 5,
                                              25, 17, 9, 1, 28, 20, 12, 4, 24, 16, 8, 0);
    __m512i q[4];
    for (int i = 0; i < 4; ++i) q[i] = _mm512_permutexvar_epi16(by_query, p[i]);
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  last = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    const __m512i low01 = _mm512_unpacklo_epi64(q[0], q[1]), low23 = _mm512_unpacklo_epi64(q[2], q[3]);
    const __m512i high01 = _mm512_unpackhi_epi64(q[0], q[1]), high23 = _mm512_unpackhi_epi64(q[2], q[3]);
    _mm512_store_si512(to, _mm512_permutex2var_epi64(low01, first, low23));
    _mm512_store_si512(to + 64, _mm512_permutex2var_epi64(low01, last, low23));
    _mm512_store_si512(to + 128, _mm512_permutex2var_epi64(high01, first, high23));
    _mm512_store_si512(to + 192, _mm512_permutex2var_epi64(high01, last, high23));
}

/// Scores become weights 2^(score · scale − max) where they stand; returns their sums by query: those of even keys,
/// then those of odd ones.
template <int Queries>
RONDO_WAY __m512 weigh_in_place(const Chunk& chunk, float* scores, float scale, __m512 max, int64_t d, Ahead& ahead) {
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int64_t b = 0; b < chunk.count; ++b) {
        float* const block = scores + b * kv_block_tokens * Queries;
        for (int i = 0; i < Queries; i += 2) {
            const __m512 one = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(block + 16 * i), factor, max));
            const __m512 two = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(block + 16 * i + 16), factor, max));
            _mm512_store_ps(block + 16 * i, one);
            _mm512_store_ps(block + 16 * i + 16, two);
            if constexpr (Queries == 16) {
                even = _mm512_add_ps(even, one);
                odd = _mm512_add_ps(odd, two);
            } else {
                even = _mm512_add_ps(_mm512_add_ps(even, one), two);
            }
        }
        ahead.ask(d / 4);
    }
    return _mm512_add_ps(even, Queries == 16 ? odd : swap_halves(even));
}

/// The same as weights[query][key] in bf16.
template <int Queries>
RONDO_WAY __m512 compute_weights(const Chunk& chunk, const float* scores, float scale, __m512 max, int64_t d,
                                 Ahead& ahead, uint16_t* weights) {
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int64_t b = 0; b < chunk.count; ++b) {
        const float* const block = scores + b * kv_block_tokens * Queries;
        __m512i pairs[Queries / 2];
        for (int i = 0; i < Queries / 2; ++i) {
            const __m512 one = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(block + 32 * i), factor, max));
            const __m512 two = exp2_lanes(_mm512_fmsub_ps(_mm512_load_ps(block + 32 * i + 16), factor, max));
            pairs[i] = (__m512i)_mm512_cvtne2ps_pbh(two, one);
            ahead.ask(d / (2 * Queries));
            if constexpr (Queries == 16) {
                even = _mm512_add_ps(even, one);
                odd = _mm512_add_ps(odd, two);
                pairs[i] = interleave_halves(pairs[i]);
            } else {
                even = _mm512_add_ps(_mm512_add_ps(even, one), two);
            }
        }
        auto* const to = reinterpret_cast<std::byte*>(weights + b * kv_block_tokens * Queries);
        if constexpr (Queries == 16) {
            store_transposed(pairs, to, kv_block_tokens * sizeof(uint16_t));
        } else {
            store_transposed(pairs, to);
        }
    }
    return _mm512_add_ps(even, Queries == 16 ? odd : swap_halves(even));
}

/// Multiplies the sums of each query by its factor: below 1 where its maximum rose.
RONDO_WAY void rescale(float* weighted, int64_t queries, int64_t d, __m512 factors) {
    alignas(64) float factor[queries_max];
    _mm512_store_ps(factor, factors);
    for (int64_t query = 0; query < queries; ++query) {
        if (factor[query] == 1.0F) continue;
        const __m512 f = _mm512_set1_ps(factor[query]);
        float* const row = weighted + query * d;
        for (int64_t c = 0; c < d; c += 16) _mm512_storeu_ps(row + c, _mm512_mul_ps(_mm512_loadu_ps(row + c), f));
    }
}

/// The queries of one group against one chunk.
template <class Products, int Queries>
RONDO_WAY void attend_group(const AttendTile& tile, const Chunk& chunk, int64_t group, const Buffers& buffers,
                            Ahead& ahead, const AttendSums& sums) {
    const int64_t d = tile.head_dim();
    const int64_t first_query = group * Queries;
    const int64_t queries = std::min<int64_t>(Queries, tile.queries() - first_query);
    if (chunk.first[0] >= tile.visible(first_query + queries - 1)) return;  // all later than every query
    alignas(64) int32_t visible[queries_max];
    for (int64_t i = 0; i < queries_max; ++i) {
        visible[i] = static_cast<int32_t>(tile.visible(first_query + std::min(i % Queries, queries - 1)));
    }
    const float scale = tile.scale * log2_e;
    Products::template compute_scores<Queries>(chunk, buffers.q + first_query * d, d, ahead, buffers.scores);
    float* const max_at = sums.max + first_query;
    float* const total_at = sums.total + first_query;
    const __m512 before = _mm512_loadu_ps(max_at);
    const __m512 highest =
        mask_and_find_maxima<Queries>(chunk, _mm512_load_si512(visible), visible[0], d, ahead, buffers.scores);
    const __m512 max = _mm512_max_ps(before, _mm512_mul_ps(highest, _mm512_set1_ps(scale)));
    __m512 total;
    if constexpr (Products::widens) {
        total = weigh_in_place<Queries>(chunk, buffers.scores, scale, max, d, ahead);
    } else {
        total = compute_weights<Queries>(chunk, buffers.scores, scale, max, d, ahead, buffers.weights);
    }
    const __m512 factor = exp2_lanes(_mm512_sub_ps(before, max));
    _mm512_storeu_ps(max_at, max);
    _mm512_storeu_ps(total_at, _mm512_fmadd_ps(_mm512_loadu_ps(total_at), factor, total));
    float* const weighted = sums.weighted + first_query * d;
    rescale(weighted, queries, d, factor);
    if constexpr (Products::widens) {
        Products::template add_values<Queries>(chunk, buffers.scores, d, ahead, weighted);
    } else {
        Products::template add_values<Queries>(chunk, buffers.weights, d, ahead, weighted);
    }
}

template <class Products, int Queries>
RONDO_WAY void attend_queries_of_tile(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    const int64_t d = tile.head_dim();
    const int64_t groups = ceil_div<int64_t>(tile.queries(), Queries);
    const Buffers buffers = place(scratch, groups * Queries, d, Products::widens);
    pack_queries<Queries>(tile, groups, buffers.q);
    std::fill_n(sums.max, groups * queries_max, nothing_seen);
    std::fill_n(sums.total, groups * queries_max, 0.0F);
    std::fill_n(sums.weighted, groups * Queries * d, 0.0F);
    Products::template begin<Queries>();
    static_assert(Products::few_rows_blocks <= chunk_blocks_max);
    const int64_t blocks = tile.many_rows ? chunk_blocks_max : Products::few_rows_blocks;
    for (int64_t block = 0; block < tile.count; block += blocks) {
        const Chunk chunk = gather_chunk<Products::widens>(tile, block, blocks, buffers);
        Products::prepare(tile.atom, chunk);
        Ahead ahead(tile, block + blocks, blocks);
        for (int64_t group = 0; group < groups; ++group)
            attend_group<Products, Queries>(tile, chunk, group, buffers, ahead, sums);
    }
    Products::end();
}

template <class Products>
void attend_in_chunks(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    assert(tile.head_dim() % 32 == 0 && tile.head_dim() <= 1024 && tile.scale > 0.0F);
    if (tile.queries() <= 8) {
        attend_queries_of_tile<Products, 8>(tile, scratch, sums);
    } else {
        attend_queries_of_tile<Products, 16>(tile, scratch, sums);
    }
}

}  // namespace

}  // namespace rondo::cpu
