#pragma once

#include <algorithm>
#include <cassert>
#include <cstring>

#include "config/checked.hpp"
#include "kernels/cpu/avx512_bf16.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/score_tile.hpp"
#include "kernels/cpu/stage_kv.hpp"

/// The softmax of a tile's queries over all keys, whatever multiplies (`Products`):
///
///     begin(), end()                             around a tile
///     keys_of(layout, atom, filled, staged)      an atom's keys as it multiplies them, where they lie or in `staged`
///     multiply<groups>(keys, q, d, out)          of 16 keys with one or two groups of 16 queries, [group][key][query]
///
/// A file whose Products need no bf16 instructions says by RONDO_WAY which they need.
#ifndef RONDO_WAY
#define RONDO_WAY RONDO_BF16
#endif
namespace rondo::cpu {

namespace {

constexpr float log2_of_e = 1.44269504F;
constexpr float unseen = -3e38F;

constexpr int tile_queries = 16;
constexpr int groups_max = score_queries_max / tile_queries;

/// Queries as tiles of pairs: element (query, c) at [query/16][c/32][(c%32)/2][query%16][c%2].
/// Queries that fill up are zero.
void pack_queries(const ScoreTile& tile, uint16_t* packed) {
    const ScoreArgs& args = *tile.args;
    const int64_t d = args.kv.atom.head_dim;
    uint16_t converted[1024];
    std::memset(packed, 0, static_cast<size_t>(score_queries_max * d) * sizeof(uint16_t));
    for (int query = 0; query < tile.queries; ++query) {
        const uint16_t* from = converted;
        const int64_t column = tile.head(query) * d;
        if (args.q.dtype == DType::bf16) {
            from = args.q.row<const uint16_t>(tile.row(query)) + column;
        } else {
            convert_row(args.q.row<const float>(tile.row(query)) + column, converted, d);
        }
        uint16_t* const to = packed + query / tile_queries * tile_queries * d + query % tile_queries * 2;
        for (int64_t c = 0; c < d; c += 2) std::memcpy(to + c * tile_queries, from + c, 2 * sizeof(uint16_t));
    }
}

/// 16 registers [key][16 queries] become [query][16 keys].
RONDO_WAY inline void transpose(__m512 (&r)[16]) {
    __m512 a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        for (int j = 0; j < 2; ++j) {
            const __m512d x = _mm512_castps_pd(a[i + j]), y = _mm512_castps_pd(a[i + j + 2]);
            b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    // b[4g + j] holds keys 4g … 4g+3 of queries j, j+4, j+8, j+12, a quarter each.
    for (int j = 0; j < 4; ++j) {
        const __m512 low01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x44),
                     high01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xee);
        const __m512 low23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x44),
                     high23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xee);
        r[j] = _mm512_shuffle_f32x4(low01, low23, 0x88);
        r[j + 4] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
        r[j + 8] = _mm512_shuffle_f32x4(high01, high23, 0x88);
        r[j + 12] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
}

/// The highest of the scores [key][16 queries] that each query sees: keys of an atom that begins with key `first`, of
/// which the first `filled` were written. Every query sees the keys below `all_see`.
RONDO_WAY inline __m512 highest_seen(__m512 highest, const __m512 (&r)[16], __m512i visible, int64_t all_see,
                                     int64_t first, int64_t filled) {
    if (filled == kv_block_tokens && first + filled <= all_see) {
        for (int i = 0; i < 16; ++i) highest = _mm512_max_ps(highest, r[i]);
        return highest;
    }
    for (int i = 0; i < filled; ++i) {
        const __m512i key = _mm512_set1_epi32(static_cast<int32_t>(first + i));
        highest = _mm512_mask_max_ps(highest, _mm512_cmpgt_epi32_mask(visible, key), highest, r[i]);
    }
    return highest;
}

/// Raw scores of all keys, query by query, and the highest that each query sees. Tokens that nobody wrote make scores
/// that are not stored; queries that fill a group up are stored nowhere.
template <class Products, int groups>
RONDO_WAY void compute_scores(const ScoreTile& tile, const uint16_t* q, std::byte* staged, float* tile_out,
                              float* weights, int64_t stride, float* highest) {
    const ScoreArgs& args = *tile.args;
    const int64_t d = args.kv.atom.head_dim;
    alignas(64) int32_t visible[score_queries_max] = {};
    int64_t all_see = args.keys;
    for (int query = 0; query < tile.queries; ++query) {
        visible[query] = static_cast<int32_t>(tile.visible(query));
        all_see = std::min(all_see, tile.visible(query));
    }
    __m512 high[groups];
    for (__m512& one : high) one = _mm512_set1_ps(unseen);
    Products::begin();
    const SequenceTables& tables = args.sequence;
    for (int64_t block = 0; block < tables.block_count[0] && tables.block_begin[block] < args.keys; ++block) {
        const int64_t first = tables.block_begin[block];
        const int64_t filled = std::min<int64_t>(tables.block_begin[block + 1], args.keys) - first;
        const std::byte* atom = args.kv.at(tables.blocks[block], tile.kv_head());
        if (block + 2 < tables.block_count[0]) {
            const std::byte* const ahead = args.kv.at(tables.blocks[block + 2], tile.kv_head());
            for (int64_t at = 0; at < static_cast<int64_t>(args.kv.atom.half_bytes()); at += 64)
                _mm_prefetch(ahead + at, _MM_HINT_T0);
        }
        const auto* const keys = Products::keys_of(args.kv.atom, atom, filled, staged);
        Products::template multiply<groups>(keys, q, d, tile_out);
        const auto mask = static_cast<__mmask16>((1U << filled) - 1);
        for (int group = 0; group < groups; ++group) {
            __m512 r[16];
            for (int i = 0; i < 16; ++i) r[i] = _mm512_load_ps(tile_out + (group * kv_block_tokens + i) * tile_queries);
            high[group] =
                highest_seen(high[group], r, _mm512_load_si512(visible + group * tile_queries), all_see, first, filled);
            transpose(r);
            float* const to = weights + group * tile_queries * stride + first;
            if (const int queries = tile.queries - group * tile_queries; queries >= tile_queries) {
                for (int query = 0; query < tile_queries; ++query)
                    _mm512_mask_storeu_ps(to + query * stride, mask, r[query]);
            } else {
                for (int query = 0; query < queries; ++query)
                    _mm512_mask_storeu_ps(to + query * stride, mask, r[query]);
            }
        }
    }
    Products::end();
    for (int group = 0; group < groups; ++group) _mm512_storeu_ps(highest + group * tile_queries, high[group]);
}

/// Raw scores become weights: the softmax over the first `visible`, whose highest is given, zeros behind.
RONDO_WAY void softmax_query(float* query, int64_t visible, int64_t keys, float scale, float highest) {
    const __m512 factor = _mm512_set1_ps(scale), max = _mm512_set1_ps(highest * scale);
    const auto weigh = [&](__m512 score) RONDO_WAY { return exp2_lanes(_mm512_fmsub_ps(score, factor, max)); };
    const auto tail = static_cast<__mmask16>((1U << (visible % 16)) - 1);
    const int64_t whole = visible / 16 * 16;
    __m512 sum = _mm512_setzero_ps();
    double total = 0.0;
    for (int64_t i = 0; i < whole; i += 16) {
        const __m512 weight = weigh(_mm512_loadu_ps(query + i));
        sum = _mm512_add_ps(sum, weight);
        _mm512_storeu_ps(query + i, weight);
        if (i % 4096 == 4080) {
            total += _mm512_reduce_add_ps(sum);
            sum = _mm512_setzero_ps();
        }
    }
    const __m512 last = _mm512_maskz_mov_ps(tail, weigh(_mm512_maskz_loadu_ps(tail, query + whole)));
    total += _mm512_reduce_add_ps(_mm512_add_ps(sum, last));
    const __m512 inverse = _mm512_set1_ps(static_cast<float>(1.0 / total));
    for (int64_t i = 0; i < whole; i += 16)
        _mm512_storeu_ps(query + i, _mm512_mul_ps(_mm512_loadu_ps(query + i), inverse));
    _mm512_mask_storeu_ps(query + whole, tail, _mm512_mul_ps(last, inverse));
    std::fill(query + visible, query + keys, 0.0F);
}

template <class Products>
void score_queries(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    const int64_t d = tile.args->kv.atom.head_dim;
    assert(d % 32 == 0 && d <= 1024 && tile.args->scale > 0.0F);
    const auto q_bytes = static_cast<size_t>(score_queries_max * d) * sizeof(uint16_t);
    const auto staged_bytes = static_cast<size_t>(kv_block_tokens * d) * sizeof(float);
    auto* const base = scratch.get(q_bytes + staged_bytes + static_cast<size_t>(groups_max) * 16 * 64);
    auto* const q = reinterpret_cast<uint16_t*>(base);
    auto* const staged = base + q_bytes;
    auto* const tile_out = reinterpret_cast<float*>(base + q_bytes + staged_bytes);
    pack_queries(tile, q);
    constexpr decltype(&compute_scores<Products, 1>) by_groups[groups_max] = {compute_scores<Products, 1>,
                                                                              compute_scores<Products, 2>};
    float highest[score_queries_max];
    by_groups[(tile.queries - 1) / tile_queries](tile, q, staged, tile_out, weights, stride, highest);
    for (int query = 0; query < tile.queries; ++query)
        softmax_query(weights + query * stride, tile.visible(query), tile.args->keys, tile.args->scale * log2_of_e,
                      highest[query]);
}

}  // namespace

}  // namespace rondo::cpu
