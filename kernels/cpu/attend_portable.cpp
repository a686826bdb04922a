#include <algorithm>

#include "config/checked.hpp"
#include "kernels/cpu/attend_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attend_portable.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/add_values-inl.hpp"
#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/cpu/widen_kv-inl.hpp"

// Queries stand side by side in registers. So a query's bits depend on nothing but its own keys, and the softmax needs
// no sums across a register. `Vectors` registers of queries make a group.
HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

constexpr int64_t queries_padded = 16;  // what arrays of queries are rounded up to

HWY_INLINE int64_t lane_count() {
    return static_cast<int64_t>(hn::Lanes(F32()));
}

/// What a tile works in, in the thread's scratch.
struct Workspace {
    float* q;       // [group][d][queries of a group], scaled
    float* k;       // [16][d]
    float* v;       // [16][d]
    float* scores;  // [16][queries of a group], then their weights
};

/// q[c][query] of each group; queries that only fill a group up are zero.
void pack_queries(const AttendTile& tile, int64_t groups, int64_t group_queries, float* packed) {
    const int64_t d = tile.head_dim();
    const float scale = tile.scale * log2_e;
    std::fill_n(packed, groups * group_queries * d, 0.0F);
    for (int64_t query = 0; query < tile.queries(); ++query) {
        const int64_t column = (tile.first_head + query % tile.group) * d;
        float* const to = packed + query / group_queries * group_queries * d + query % group_queries;
        with_elements_of(tile.q.dtype, [&](auto element) {
            const auto* const from = tile.q.row<const decltype(element)>(query / tile.group) + column;
            for_lanes(d, [&](int64_t c, auto load, auto) HWY_ATTR {
                float some[HWY_MAX_BYTES / sizeof(float)];
                hn::StoreU(load(from + c), F32(), some);
                for (int64_t i = 0; i < std::min(lane_count(), d - c); ++i)
                    to[(c + i) * group_queries] = some[i] * scale;
            });
        });
    }
}

/// scores[key][query] = q·k for `Keys` keys and the queries of one group.
template <int Keys, int Vectors>
HWY_INLINE void score_keys(const float* q, const float* k, int64_t d, float* scores) {
    const F32 f;
    const int64_t width = lane_count();
    Lanes sums[Keys][Vectors];
    for (int key = 0; key < Keys; ++key) {
        for (int i = 0; i < Vectors; ++i) sums[key][i] = hn::Zero(f);
    }
    for (int64_t c = 0; c < d; ++c, q += Vectors * width) {
        Lanes queries[Vectors];
        for (int i = 0; i < Vectors; ++i) queries[i] = hn::LoadU(f, q + i * width);
        for (int key = 0; key < Keys; ++key) {
            const Lanes channel = hn::Set(f, k[key * d + c]);
            for (int i = 0; i < Vectors; ++i) sums[key][i] = hn::MulAdd(channel, queries[i], sums[key][i]);
        }
    }
    for (int key = 0; key < Keys; ++key) {
        for (int i = 0; i < Vectors; ++i) hn::StoreU(sums[key][i], f, scores + (key * Vectors + i) * width);
    }
}

/// Masks the scores of keys that do not count, and of keys that a query does not see: it sees those below its
/// `visible`.
template <int Vectors>
HWY_INLINE void mask_scores(const TileKeys& keys, const int32_t* visible, float* scores) {
    const F32 f;
    const hn::Rebind<int32_t, F32> i32;
    const int64_t width = lane_count();
    const Lanes masked = hn::Set(f, masked_score);
    for (int t = 0; t < kv_block_tokens; ++t) {
        const bool counts = (keys.allowed >> t & 1) != 0;
        for (int i = 0; i < Vectors; ++i, scores += width) {
            const auto seen = hn::Gt(hn::LoadU(i32, visible + i * width), hn::Set(i32, keys.first + t));
            hn::StoreU(counts ? hn::IfThenElse(hn::RebindMask(f, seen), hn::LoadU(f, scores), masked) : masked, f,
                       scores);
        }
    }
}

/// Turns scores into weights under each query's new maximum; its earlier sums must be multiplied by its factor.
template <int Vectors>
HWY_INLINE void weigh(float* scores, float* max, float* total, float* factors) {
    const F32 f;
    const int64_t width = lane_count();
    const Lanes to_natural = hn::Set(f, 0.693147181F);
    for (int i = 0; i < Vectors; ++i) {
        const Lanes before = hn::LoadU(f, max + i * width);
        Lanes highest = before;
        for (int t = 0; t < kv_block_tokens; ++t)
            highest = hn::Max(highest, hn::LoadU(f, scores + (t * Vectors + i) * width));
        const Lanes factor = exp_lanes(f, hn::Mul(hn::Sub(before, highest), to_natural));
        Lanes sum = hn::Zero(f);
        for (int t = 0; t < kv_block_tokens; ++t) {
            float* const at = scores + (t * Vectors + i) * width;
            const Lanes weight = exp_lanes(f, hn::Mul(hn::Sub(hn::LoadU(f, at), highest), to_natural));
            hn::StoreU(weight, f, at);
            sum = hn::Add(sum, weight);
        }
        hn::StoreU(highest, f, max + i * width);
        hn::StoreU(hn::MulAdd(hn::LoadU(f, total + i * width), factor, sum), f, total + i * width);
        hn::StoreU(factor, f, factors + i * width);
    }
}

/// The queries of one group against the keys of one atom.
template <int Vectors>
HWY_INLINE void attend_group(const AttendTile& tile, const TileKeys& keys, int64_t first_query, const Workspace& at,
                             const float* k, const float* v, const AttendSums& sums) {
    const int64_t d = tile.head_dim(), group_queries = Vectors * lane_count();
    const int64_t queries = std::min(group_queries, tile.queries() - first_query);
    if (keys.first >= tile.visible(first_query + queries - 1)) return;  // all later than every query
    constexpr int together = Vectors == 1 ? 8 : 4;
    for (int t = 0; t < kv_block_tokens; t += together)
        score_keys<together, Vectors>(at.q + first_query * d, k + t * d, d, at.scores + t * group_queries);
    if (keys.allowed != 0xffff || keys.first + kv_block_tokens > tile.visible(first_query)) {
        int32_t visible[queries_padded];
        for (int64_t i = 0; i < group_queries; ++i)
            visible[i] = static_cast<int32_t>(tile.visible(first_query + std::min(i, queries - 1)));
        mask_scores<Vectors>(keys, visible, at.scores);
    }
    float factors[queries_padded];
    weigh<Vectors>(at.scores, sums.max + first_query, sums.total + first_query, factors);
    add_values_of_all(queries, at.scores, 1, group_queries, factors, v, d, sums.weighted + first_query * d);
}

template <int Vectors>
void attend_queries_of_tile(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    const int64_t d = tile.head_dim(), group_queries = Vectors * lane_count();
    const int64_t groups = ceil_div(tile.queries(), group_queries), padded = round_up(tile.queries(), queries_padded);
    const int64_t q_floats = groups * group_queries * d, rows_floats = kv_block_tokens * d;
    const int64_t floats = q_floats + 2 * rows_floats + kv_block_tokens * group_queries;
    auto* const base = scratch.get<float>(static_cast<size_t>(floats) * sizeof(float));
    const Workspace at{base, base + q_floats, base + q_floats + rows_floats, base + q_floats + 2 * rows_floats};
    pack_queries(tile, groups, group_queries, at.q);
    std::fill_n(sums.max, padded, nothing_seen);
    std::fill_n(sums.total, padded, 0.0F);
    std::fill_n(sums.weighted, tile.queries() * d, 0.0F);
    const auto atom_bytes = static_cast<int64_t>(tile.atom.bytes());
    for (int64_t i = 0; i < tile.count; ++i) {
        const TileKeys& keys = tile.keys[i];
        if (i + 1 < tile.count + tile.behind) {
            for (int64_t byte = 0; byte < atom_bytes; byte += 64) hwy::Prefetch(tile.keys[i + 1].atom + byte);
        }
        const float* const k = widen_keys(tile.atom, keys.atom, keys.filled, at.k);
        const float* const v = widen_values(tile.atom, keys.atom, keys.filled, at.v);
        for (int64_t group = 0; group < groups; ++group)
            attend_group<Vectors>(tile, keys, group * group_queries, at, k, v, sums);
    }
}

void attend_portable(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    constexpr int vectors = std::max(1, static_cast<int>(queries_padded / HWY_LANES(float)));
    if (vectors == 1 || tile.queries() <= lane_count()) {
        attend_queries_of_tile<1>(tile, scratch, sums);
    } else {
        attend_queries_of_tile<vectors>(tile, scratch, sums);
    }
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(attend_portable);
}

void attend_tile_portable(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    HWY_DYNAMIC_DISPATCH(attend_portable)(tile, scratch, sums);
}

}  // namespace rondo::cpu
#endif
