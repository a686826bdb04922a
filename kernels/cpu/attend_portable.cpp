#include <algorithm>
#include <cmath>

#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/read_kv.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attend_portable.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// One line against the keys of one block: scores, then the running maximum, total and weighted sum.
void attend_block(const float* q, const float* k, const float* v, int64_t keys, int64_t d, float* weighted, float& max,
                  float& total) {
    float scores[kv_block_tokens];
    float block_max = max;
    for (int64_t t = 0; t < keys; ++t) {
        scores[t] = dot_lanes(q, k + t * d, d);
        block_max = std::max(block_max, scores[t]);
    }
    const float factor = std::exp2(max - block_max);
    max = block_max;
    float block_total = 0.0F;
    for (int64_t t = 0; t < keys; ++t) {
        scores[t] = std::exp2(scores[t] - block_max);
        block_total += scores[t];
    }
    total = total * factor + block_total;
    const Lanes scale = hn::Set(F32(), factor);
    for_lanes(d, [&](int64_t c, auto load, auto store) HWY_ATTR {
        Lanes sum = hn::Mul(load(weighted + c), scale);
        for (int64_t t = 0; t < keys; ++t) sum = hn::MulAdd(hn::Set(F32(), scores[t]), load(v + t * d + c), sum);
        store(sum, weighted + c);
    });
}

void attend_portable(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    const int64_t d = tile.head_dim();
    const int64_t lines = tile.lines();
    auto* const q = scratch.get<float>(static_cast<size_t>((lines + 2 * kv_block_tokens) * d) * sizeof(float));
    float* const k = q + lines * d;
    float* const v = k + kv_block_tokens * d;
    const Lanes scale = hn::Set(F32(), tile.scale * log2_e);
    for (int64_t line = 0; line < lines; ++line) {
        const int64_t column = (tile.first_head + line % tile.group) * d;
        with_elements_of(tile.q.dtype, [&](auto element) {
            const auto* const from = tile.q.row<const decltype(element)>(line / tile.group) + column;
            for_lanes(d, [&](int64_t c, auto load, auto store)
                             HWY_ATTR { store(hn::Mul(load(from + c), scale), q + line * d + c); });
        });
        sums.max[line] = nothing_seen;
        sums.total[line] = 0.0F;
        std::fill_n(sums.weighted + line * d, d, 0.0F);
    }
    for (int64_t i = 0; i < tile.count; ++i) {
        const TileKeys& keys = tile.keys[i];
        int64_t number[kv_block_tokens];
        int64_t count = 0;
        for (int t = 0; t < keys.filled; ++t) {
            if ((keys.allowed >> t & 1) == 0) continue;
            read_token(tile.atom, keys.atom, t, k + count * d, v + count * d);
            number[count++] = keys.first + t;
        }
        for (int64_t line = 0; line < lines; ++line) {
            const int64_t seen = std::lower_bound(number, number + count, tile.visible(line)) - number;
            if (seen == 0) continue;
            attend_block(q + line * d, k, v, seen, d, sums.weighted + line * d, sums.max[line], sums.total[line]);
        }
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
