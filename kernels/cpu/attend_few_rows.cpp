#include <algorithm>

#include "config/checked.hpp"
#include "kernels/cpu/attend_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attend_few_rows.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/add_values-inl.hpp"
#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/cpu/score_atom-inl.hpp"
#include "kernels/cpu/widen_kv-inl.hpp"

// Channels stand side by side in registers for a score, keys for the softmax: no lane is empty, however few queries
// there are. A query's sums are the same beside any others.
HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// What a tile works in, in the thread's scratch.
struct FewRowsSpace {
    float* q;       // [query][d], scaled
    float* k;       // [16][d]
    float* v;       // [16][d]
    float* scores;  // [query][16], then their weights
};

void scale_queries(const AttendTile& tile, float* scaled) {
    const int64_t d = tile.head_dim();
    const Lanes scale = hn::Set(F32(), tile.scale * log2_e);
    for (int64_t query = 0; query < tile.queries(); ++query) {
        const int64_t column = (tile.first_head + query % tile.group) * d;
        with_elements_of(tile.q.dtype, [&](auto element) {
            const auto* const from = tile.q.row<const decltype(element)>(query / tile.group) + column;
            for_lanes(d, [&](int64_t c, auto load, auto store)
                             HWY_ATTR { store(hn::Mul(load(from + c), scale), scaled + query * d + c); });
        });
    }
}

/// Masks the scores of keys that do not count, and of those that the query does not see.
HWY_INLINE void mask_atom(const TileKeys& keys, int64_t visible, float* scores) {
    for (int t = 0; t < kv_block_tokens; ++t) {
        if ((keys.allowed >> t & 1) == 0 || keys.first + t >= visible) scores[t] = masked_score;
    }
}

/// Turns a query's scores into weights under its new maximum. The factor of its earlier sums.
HWY_INLINE float weigh_atom(float* scores, float& max, float& total) {
    const F32 f;
    const Lanes to_natural = hn::Set(f, 0.693147181F);
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    Lanes highest = hn::Set(f, max);
    for (int64_t t = 0; t < kv_block_tokens; t += width) highest = hn::Max(highest, hn::LoadU(f, scores + t));
    highest = hn::MaxOfLanes(f, highest);
    const float before = max;
    max = hn::GetLane(highest);
    Lanes sum = hn::Zero(f);
    for (int64_t t = 0; t < kv_block_tokens; t += width) {
        const Lanes weight = exp_lanes(f, hn::Mul(hn::Sub(hn::LoadU(f, scores + t), highest), to_natural));
        hn::StoreU(weight, f, scores + t);
        sum = hn::Add(sum, weight);
    }
    const float added = hn::GetLane(hn::SumOfLanes(f, sum));
    if (max == before) {
        total += added;
        return 1.0F;
    }
    const float factor = hn::GetLane(exp_lanes(f, hn::Mul(hn::Sub(hn::Set(f, before), highest), to_natural)));
    total = total * factor + added;
    return factor;
}

void attend_few_rows(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    const int64_t d = tile.head_dim(), queries = tile.queries(), rows_floats = kv_block_tokens * d;
    const int64_t floats = queries * d + 2 * rows_floats + queries * (kv_block_tokens + 1);
    auto* const base = scratch.get<float>(static_cast<size_t>(floats) * sizeof(float));
    const FewRowsSpace at{base, base + queries * d, base + queries * d + rows_floats,
                          base + queries * d + 2 * rows_floats};
    float* const factors = at.scores + queries * kv_block_tokens;
    scale_queries(tile, at.q);
    const int64_t padded = round_up<int64_t>(queries, 16);
    std::fill_n(sums.max, padded, nothing_seen);
    std::fill_n(sums.total, padded, 0.0F);
    std::fill_n(sums.weighted, queries * d, 0.0F);
    const auto atom_bytes = static_cast<int64_t>(tile.atom.bytes());
    for (int64_t i = 0; i < tile.count; ++i) {
        const TileKeys& keys = tile.keys[i];
        if (i + 1 < tile.count + tile.behind) {
            for (int64_t byte = 0; byte < atom_bytes; byte += 64) hwy::Prefetch(tile.keys[i + 1].atom + byte);
        }
        if (keys.first >= tile.visible(queries - 1)) continue;  // all later than every query
        score_atom(at.q, widen_keys(tile.atom, keys.atom, keys.filled, at.k), d, queries, at.scores);
        const bool some_are_masked = keys.allowed != 0xffff || keys.first + kv_block_tokens > tile.visible(0);
        for (int64_t query = 0; query < queries; ++query) {
            float* const scores = at.scores + query * kv_block_tokens;
            if (some_are_masked) mask_atom(keys, tile.visible(query), scores);
            factors[query] = weigh_atom(scores, sums.max[query], sums.total[query]);
        }
        const float* const v = widen_values(tile.atom, keys.atom, keys.filled, at.v);
        add_values_of_all(queries, at.scores, kv_block_tokens, 1, factors, v, d, sums.weighted);
    }
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(attend_few_rows);
}

void attend_tile_few_rows(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    HWY_DYNAMIC_DISPATCH(attend_few_rows)(tile, scratch, sums);
}

}  // namespace rondo::cpu
#endif
