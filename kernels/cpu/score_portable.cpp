#include <algorithm>
#include <cmath>

#include "kernels/cpu/score_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/score_portable.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/cpu/score_atom-inl.hpp"
#include "kernels/cpu/widen_kv-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// Scores become weights: the softmax over the first `visible`, zeros behind.
void softmax_query(float* query, int64_t visible, int64_t keys) {
    const float max = *std::max_element(query, query + visible);
    const Lanes highest = hn::Set(F32(), max);
    double total = 0.0;
    for_lanes(visible, [&](int64_t i, auto load, auto store)
                           HWY_ATTR { store(exp_lanes(F32(), hn::Sub(load(query + i), highest)), query + i); });
    total = sum_lanes(visible, [&](int64_t i, auto load) HWY_ATTR { return load(query + i); });
    const Lanes factor = hn::Set(F32(), static_cast<float>(1.0 / total));
    for_lanes(visible,
              [&](int64_t i, auto load, auto store) HWY_ATTR { store(hn::Mul(load(query + i), factor), query + i); });
    std::fill(query + visible, query + keys, 0.0F);
}

void score_portable(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    const ScoreArgs& args = *tile.args;
    const int64_t d = args.kv.atom.head_dim, floats = (tile.queries + kv_block_tokens) * d;
    auto* const q = scratch.get<float>(static_cast<size_t>(floats + tile.queries * kv_block_tokens) * sizeof(float));
    float *const k = q + tile.queries * d, *const scores = q + floats;
    const Lanes scale = hn::Set(F32(), args.scale);
    for (int query = 0; query < tile.queries; ++query) {
        with_elements_of(args.q.dtype, [&](auto element) {
            const auto* const from = args.q.row<const decltype(element)>(tile.row(query)) + tile.head(query) * d;
            for_lanes(d, [&](int64_t c, auto load, auto store)
                             HWY_ATTR { store(hn::Mul(load(from + c), scale), q + query * d + c); });
        });
    }
    const SequenceTables& tables = args.sequence;
    for (int64_t block = 0; block < tables.block_count[0] && tables.block_begin[block] < args.keys; ++block) {
        const std::byte* const atom = args.kv.at(tables.blocks[block], tile.kv_head());
        const int64_t first = tables.block_begin[block];
        const int64_t end = std::min<int64_t>(tables.block_begin[block + 1], args.keys);
        score_atom(q, widen_keys(args.kv.atom, atom, end - first, k), d, tile.queries, scores);
        for (int query = 0; query < tile.queries; ++query) {
            const int64_t seen = std::min(end, tile.visible(query)) - first;
            if (seen > 0) std::copy_n(scores + query * kv_block_tokens, seen, weights + query * stride + first);
        }
    }
    for (int query = 0; query < tile.queries; ++query)
        softmax_query(weights + query * stride, tile.visible(query), args.keys);
}

void score_atoms_portable(const ScoreAtoms& tile, Scratch& scratch, float* weights) {
    const int64_t d = tile.atom.head_dim, columns = tile.count * kv_block_tokens;
    const int64_t floats = (tile.heads + kv_block_tokens) * d;
    auto* const q = scratch.get<float>(static_cast<size_t>(floats + tile.heads * kv_block_tokens) * sizeof(float));
    float *const k = q + tile.heads * d, *const scores = q + floats;
    const Lanes scale = hn::Set(F32(), tile.scale);
    with_elements_of(tile.q.dtype, [&](auto element) {
        const auto* const from = tile.q.row<const decltype(element)>(0) + tile.first_head * d;
        for_lanes(tile.heads * d,
                  [&](int64_t c, auto load, auto store) HWY_ATTR { store(hn::Mul(load(from + c), scale), q + c); });
    });
    std::fill(weights, weights + tile.heads * columns, masked_score);
    for (int64_t i = 0; i < tile.count; ++i) {
        const TileKeys& keys = tile.keys[i];
        score_atom(q, widen_keys(tile.atom, keys.atom, keys.filled, k), d, tile.heads, scores);
        for (int head = 0; head < tile.heads; ++head) {
            for (int t = 0; t < kv_block_tokens; ++t) {
                if ((keys.allowed >> t & 1) != 0)
                    weights[head * columns + i * kv_block_tokens + t] = scores[head * kv_block_tokens + t];
            }
        }
    }
    for (int head = 0; head < tile.heads; ++head) softmax_query(weights + head * columns, columns, columns);
}

void sum_queries_portable(const float* weights, int64_t stride, int queries, int64_t keys, float factor, float* sums) {
    const Lanes scale = hn::Set(F32(), factor);
    for_lanes(keys, [&](int64_t i, auto load, auto store) HWY_ATTR {
        Lanes sum = load(weights + i);
        for (int query = 1; query < queries; ++query) sum = hn::Add(sum, load(weights + query * stride + i));
        store(hn::Mul(sum, scale), sums + i);
    });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(score_portable);
HWY_EXPORT(score_atoms_portable);
HWY_EXPORT(sum_queries_portable);
}  // namespace

void score_tile_portable(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    HWY_DYNAMIC_DISPATCH(score_portable)(tile, scratch, weights, stride);
}

void score_atoms(const ScoreAtoms& tile, Scratch& scratch, float* weights) {
    HWY_DYNAMIC_DISPATCH(score_atoms_portable)(tile, scratch, weights);
}

void sum_queries(const float* weights, int64_t stride, int queries, int64_t keys, float factor, float* sums) {
    HWY_DYNAMIC_DISPATCH(sum_queries_portable)(weights, stride, queries, keys, factor, sums);
}

}  // namespace rondo::cpu
#endif
