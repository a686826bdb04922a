// Compiled once for each Highway target, so the guard toggles instead of `#pragma once`.
#if defined(RONDO_KERNELS_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_LANES_INL_HPP
#undef RONDO_KERNELS_CPU_LANES_INL_HPP
#else
#define RONDO_KERNELS_CPU_LANES_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The lanes of one register: what every element-wise op works in, whatever type memory holds (uint16_t is bf16).
using F32 = hn::ScalableTag<float>;
using Lanes = hn::Vec<F32>;

HWY_INLINE Lanes load_lanes(F32 f, const float* from) {
    return hn::LoadU(f, from);
}

HWY_INLINE Lanes load_lanes(F32 f, const uint16_t* from_bf16) {
    const hn::Rebind<uint32_t, F32> u32;
    const hn::Rebind<uint16_t, F32> u16;
    return hn::BitCast(f, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, from_bf16))));
}

HWY_INLINE void store_lanes(F32 f, Lanes lanes, float* to) {
    hn::StoreU(lanes, f, to);
}

/// Rounds to nearest, ties to even, with integers: the bf16 instructions flush denormals and older machines lack them.
/// A NaN is cut and made quiet instead, since rounding could carry its payload over into the sign.
HWY_INLINE void store_lanes(F32 /*f*/, Lanes lanes, uint16_t* to_bf16) {
    const hn::Rebind<uint32_t, F32> u32;
    const hn::Rebind<uint16_t, F32> u16;
    const auto bits = hn::BitCast(u32, lanes);
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(u32, 1U));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(u32, 0x7fffU)));
    const auto quiet = hn::Or(high, hn::Set(u32, 0x40U));
    const auto nan = hn::RebindMask(u32, hn::IsNaN(lanes));
    hn::StoreU(hn::TruncateTo(u16, hn::IfThenElse(nan, quiet, rounded)), u16, to_bf16);
}

/// The first `count` lanes of a row's tail, the others zero. Nothing beyond the row is touched, not even by a masked
/// access: the bytes behind it may belong to another thread or to nobody.
template <class T>
HWY_INLINE Lanes load_tail(F32 f, const T* from, size_t count) {
    T whole[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(whole, from, count * sizeof(T));
    return load_lanes(f, whole);
}

template <class T>
HWY_INLINE void store_tail(F32 f, Lanes lanes, T* to, size_t count) {
    T whole[HWY_MAX_BYTES / sizeof(float)];
    store_lanes(f, lanes, whole);
    std::memcpy(to, whole, count * sizeof(T));
}

/// Calls body(i, load, store) for each register's worth of [0, count); the last one may be a tail.
template <class Body>
HWY_INLINE void for_lanes(int64_t count, Body body) {
    const F32 f;
    const int64_t width = static_cast<int64_t>(hn::Lanes(f));
    int64_t i = 0;
    for (; i + width <= count; i += width) {
        body(
            i, [f](const auto* from) HWY_ATTR { return load_lanes(f, from); },
            [f](Lanes lanes, auto* to) HWY_ATTR { store_lanes(f, lanes, to); });
    }
    if (i == count) return;
    const size_t rest = static_cast<size_t>(count - i) % hn::Lanes(f);  // it is less; compilers are told so
    body(
        i, [f, rest](const auto* from) HWY_ATTR { return load_tail(f, from, rest); },
        [f, rest](Lanes lanes, auto* to) HWY_ATTR { store_tail(f, lanes, to, rest); });
}

/// Adds term(i, load) over [0, count), in double between spans, so the error does not grow with the length. Tail lanes
/// beyond the row come as term() of zeros unless `term` masks them: `term` must give zero for loaded zeros.
template <class Term>
HWY_INLINE double sum_lanes(int64_t count, Term term) {
    const F32 f;
    constexpr int64_t span = 1024;
    double total = 0.0;
    for (int64_t begin = 0; begin < count; begin += span) {
        Lanes sum = hn::Zero(f);
        for_lanes(std::min(span, count - begin),
                  [&](int64_t i, auto load, auto) HWY_ATTR { sum = hn::Add(sum, term(begin + i, load)); });
        total += hn::GetLane(hn::SumOfLanes(f, sum));
    }
    return total;
}

/// e^x for x ≤ 88, within 2 ulp. Below −87 it is zero, where the true value is about to become a denormal: those cost a
/// hundred times more and cannot matter beside the 1 they are added to. A NaN stays one.
HWY_INLINE Lanes exp_lanes(F32 f, Lanes x) {
    const Lanes lowest = hn::Set(f, -87.0F);
    const auto vanishing = hn::Lt(x, lowest);
    const Lanes power = hn::Exp(f, hn::IfThenElse(vanishing, lowest, x));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(vanishing, power));
}

/// Calls f with a value of the type that stands for a tensor's elements in memory.
template <class F>
HWY_INLINE void with_elements_of(DType type, F f) {
    if (type == DType::bf16) {
        f(uint16_t{});
    } else {
        f(float{});
    }
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
