// Compiled once for each Highway target, so the guard toggles instead of `#pragma once`.
#if defined(RONDO_KERNELS_CPU_ADD_VALUES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_ADD_VALUES_INL_HPP
#undef RONDO_KERNELS_CPU_ADD_VALUES_INL_HPP
#else
#define RONDO_KERNELS_CPU_ADD_VALUES_INL_HPP
#endif

#include <cmath>
#include <type_traits>

#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/kv_layout.hpp"

/// An atom's values under the weights of queries. So many queries and registers of channels go together that sums need
/// not wait for each other. The order of a sum is that of the keys, whatever goes together.
HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// weighted[query][c] = weighted · factor + Σ_key weights · v for `Columns` registers of channels from c on. The weight
/// of a query and a key is at weights[query · of_query + key · of_key].
template <int Queries, int Columns>
HWY_INLINE void add_columns(const float* weights, int64_t of_query, int64_t of_key, const float* factors,
                            const float* v, int64_t d, int64_t c, float* weighted) {
    const F32 f;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    Lanes sums[Queries][Columns];
    for (int query = 0; query < Queries; ++query) {
        for (int i = 0; i < Columns; ++i)
            sums[query][i] = hn::Mul(hn::LoadU(f, weighted + query * d + c + i * width), hn::Set(f, factors[query]));
    }
    for (int64_t t = 0; t < kv_block_tokens; ++t) {
        Lanes values[Columns];
        for (int i = 0; i < Columns; ++i) values[i] = hn::LoadU(f, v + t * d + c + i * width);
        for (int query = 0; query < Queries; ++query) {
            const Lanes weight = hn::Set(f, weights[query * of_query + t * of_key]);
            for (int i = 0; i < Columns; ++i) sums[query][i] = hn::MulAdd(weight, values[i], sums[query][i]);
        }
    }
    for (int query = 0; query < Queries; ++query) {
        for (int i = 0; i < Columns; ++i) hn::StoreU(sums[query][i], f, weighted + query * d + c + i * width);
    }
}

template <int Queries>
HWY_INLINE void add_values(const float* weights, int64_t of_query, int64_t of_key, const float* factors, const float* v,
                           int64_t d, float* weighted) {
    constexpr int columns = 8 / Queries;  // eight sums at a time
    const auto width = static_cast<int64_t>(hn::Lanes(F32()));
    int64_t c = 0;
    for (; c + columns * width <= d; c += columns * width)
        add_columns<Queries, columns>(weights, of_query, of_key, factors, v, d, c, weighted);
    for (; c + width <= d; c += width) add_columns<Queries, 1>(weights, of_query, of_key, factors, v, d, c, weighted);
    for (; c < d; ++c) {
        for (int query = 0; query < Queries; ++query) {
            float sum = weighted[query * d + c] * factors[query];
            for (int64_t t = 0; t < kv_block_tokens; ++t)
                sum = std::fma(weights[query * of_query + t * of_key], v[t * d + c], sum);
            weighted[query * d + c] = sum;
        }
    }
}

HWY_INLINE void add_values_of_all(int64_t queries, const float* weights, int64_t of_query, int64_t of_key,
                                  const float* factors, const float* v, int64_t d, float* weighted) {
    int64_t query = 0;
    const auto add = [&](auto together) HWY_ATTR {
        add_values<together>(weights + query * of_query, of_query, of_key, factors + query, v, d, weighted + query * d);
        query += together;
    };
    while (query + 4 <= queries) add(std::integral_constant<int, 4>());
    if (query + 2 <= queries) add(std::integral_constant<int, 2>());
    if (query < queries) add(std::integral_constant<int, 1>());
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
