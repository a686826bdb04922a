// Compiled once for each Highway target, so the guard toggles instead of `#pragma once`.
#if defined(RONDO_KERNELS_CPU_SCORE_ATOM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_SCORE_ATOM_INL_HPP
#undef RONDO_KERNELS_CPU_SCORE_ATOM_INL_HPP
#else
#define RONDO_KERNELS_CPU_SCORE_ATOM_INL_HPP
#endif

#include <initializer_list>

#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/kv_layout.hpp"

/// Products of queries and the keys of an atom, all rows of floats. Channels stand side by side in registers; a product
/// has the same bits beside any others.
HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// The sums of four registers' lanes.
HWY_INLINE void store_sums(Lanes a, Lanes b, Lanes c, Lanes d, float* to) {
#if HWY_TARGET == HWY_SCALAR
    int i = 0;
    for (const Lanes sum : {a, b, c, d}) to[i++] = hn::GetLane(sum);
#else
    const F32 f;
    const Lanes ac = hn::Add(hn::InterleaveLower(f, a, c), hn::InterleaveUpper(f, a, c));
    const Lanes bd = hn::Add(hn::InterleaveLower(f, b, d), hn::InterleaveUpper(f, b, d));
    float blocks[HWY_MAX_BYTES / sizeof(float)];  // of four lanes, each with a part of all four sums
    hn::StoreU(hn::Add(hn::InterleaveLower(f, ac, bd), hn::InterleaveUpper(f, ac, bd)), f, blocks);
    for (size_t i = 0; i < 4; ++i) {
        float sum = blocks[i];
        for (size_t block = 4; block < hn::Lanes(f); block += 4) sum += blocks[block + i];
        to[i] = sum;
    }
#endif
}

/// sums[query][key] += the products of the channels that `load` finds at q and k.
template <int Keys, int Queries, class Load>
HWY_INLINE void add_products(const float* q, const float* k, int64_t d, Load load, Lanes (&sums)[Queries][Keys]) {
    Lanes queries[Queries];
    for (int query = 0; query < Queries; ++query) queries[query] = load(q + query * d);
    for (int key = 0; key < Keys; ++key) {
        const Lanes channels = load(k + key * d);
        for (int query = 0; query < Queries; ++query)
            sums[query][key] = hn::MulAdd(channels, queries[query], sums[query][key]);
    }
}

/// scores[query][key] = q·k for `Keys` keys and `Queries` queries.
template <int Keys, int Queries>
HWY_INLINE void score_few(const float* q, const float* k, int64_t d, float* scores) {
    const F32 f;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    Lanes sums[Queries][Keys];
    for (int query = 0; query < Queries; ++query) {
        for (int key = 0; key < Keys; ++key) sums[query][key] = hn::Zero(f);
    }
    int64_t c = 0;
    for (; c + width <= d; c += width)
        add_products<Keys, Queries>(
            q + c, k + c, d, [f](const float* from) HWY_ATTR { return hn::LoadU(f, from); }, sums);
    if (const size_t rest = static_cast<size_t>(d) % hn::Lanes(f); rest != 0)
        add_products<Keys, Queries>(
            q + c, k + c, d, [=](const float* from) HWY_ATTR { return load_tail(f, from, rest); }, sums);
    for (int query = 0; query < Queries; ++query) {
        for (int key = 0; key < Keys; key += 4)
            store_sums(sums[query][key], sums[query][key + 1], sums[query][key + 2], sums[query][key + 3],
                       scores + query * kv_block_tokens + key);
    }
}

/// scores[query][key] = q·k for the 16 keys of an atom.
HWY_INLINE void score_atom(const float* q, const float* k, int64_t d, int64_t queries, float* scores) {
    int64_t query = 0;
    for (; query + 2 <= queries; query += 2) {
        for (int64_t key = 0; key < kv_block_tokens; key += 4)
            score_few<4, 2>(q + query * d, k + key * d, d, scores + query * kv_block_tokens + key);
    }
    if (query == queries) return;
    for (int64_t key = 0; key < kv_block_tokens; key += 8)
        score_few<8, 1>(q + query * d, k + key * d, d, scores + query * kv_block_tokens + key);
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
