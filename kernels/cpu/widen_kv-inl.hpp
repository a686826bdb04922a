// Compiled once for each Highway target, so the guard toggles instead of `#pragma once`.
#if defined(RONDO_KERNELS_CPU_WIDEN_KV_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_WIDEN_KV_INL_HPP
#undef RONDO_KERNELS_CPU_WIDEN_KV_INL_HPP
#else
#define RONDO_KERNELS_CPU_WIDEN_KV_INL_HPP
#endif

#include <algorithm>

#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/kv_layout.hpp"

/// An atom's keys or values as rows of floats [16][d], whatever type they are stored in. Rows that nobody wrote
/// become zero, since a NaN that lies there would stay one under a weight of zero. Atoms of floats are read where they
/// lie.
HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// to[i] = codes[i] · scale
HWY_INLINE void widen_codes(const int8_t* codes, float scale, float* to, int64_t d) {
    const F32 f;
    const hn::Rebind<int32_t, F32> i32;
    const hn::Rebind<int8_t, F32> i8;
    const Lanes factor = hn::Set(f, scale);
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    int64_t i = 0;
    for (; i + width <= d; i += width)
        hn::StoreU(hn::Mul(hn::ConvertTo(f, hn::PromoteTo(i32, hn::LoadU(i8, codes + i))), factor), f, to + i);
    for (; i < d; ++i) to[i] = static_cast<float>(codes[i]) * scale;
}

HWY_INLINE void widen_bf16(const uint16_t* from, float* to, int64_t count) {
    for_lanes(count, [&](int64_t i, auto load, auto store) HWY_ATTR { store(load(from + i), to + i); });
}

/// Two tokens' values [d][2] as two rows.
HWY_INLINE void widen_pair(const uint16_t* pairs, float* even, float* odd, int64_t d) {
    const F32 f;
    const hn::Rebind<uint32_t, F32> u32;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    const auto upper = hn::Set(u32, 0xffff0000U);
    int64_t c = 0;
    for (; c + width <= d; c += width) {
        const auto both = hn::LoadU(u32, reinterpret_cast<const uint32_t*>(pairs + 2 * c));
        hn::StoreU(hn::BitCast(f, hn::ShiftLeft<16>(both)), f, even + c);
        hn::StoreU(hn::BitCast(f, hn::And(both, upper)), f, odd + c);
    }
    for (; c < d; ++c) {
        even[c] = float_from_bf16(pairs[2 * c]);
        odd[c] = float_from_bf16(pairs[2 * c + 1]);
    }
}

HWY_INLINE const float* widen_keys(const KvAtom& layout, const std::byte* atom, int64_t filled, float* rows) {
    const int64_t d = layout.head_dim;
    const bool whole = filled == kv_block_tokens;
    if (layout.dtype == DType::f32) {
        const auto* const floats = reinterpret_cast<const float*>(atom);
        if (whole) return floats;
        std::copy_n(floats, filled * d, rows);
    } else if (layout.dtype == DType::bf16) {
        for (int64_t t = 0; t < filled; ++t)
            widen_bf16(reinterpret_cast<const uint16_t*>(atom) + t * d, rows + t * d, d);
    } else {
        const auto* const scales = reinterpret_cast<const float*>(atom + layout.scales_offset());
        for (int64_t t = 0; t < filled; ++t)
            widen_codes(reinterpret_cast<const int8_t*>(atom) + t * d, scales[t], rows + t * d, d);
    }
    std::fill(rows + filled * d, rows + kv_block_tokens * d, 0.0F);
    return rows;
}

HWY_INLINE const float* widen_values(const KvAtom& layout, const std::byte* atom, int64_t filled, float* rows) {
    const int64_t d = layout.head_dim;
    const std::byte* const values = atom + layout.half_bytes();
    if (layout.dtype == DType::f32) {
        if (filled == kv_block_tokens) return reinterpret_cast<const float*>(values);
        std::copy_n(reinterpret_cast<const float*>(values), filled * d, rows);
    } else if (layout.dtype == DType::bf16) {
        const auto* const pairs = reinterpret_cast<const uint16_t*>(values);
        for (int64_t t = 0; t < filled; t += 2) widen_pair(pairs + t * d, rows + t * d, rows + (t + 1) * d, d);
    } else {
        const auto* const scales = reinterpret_cast<const float*>(atom + layout.scales_offset()) + kv_block_tokens;
        for (int64_t t = 0; t < filled; ++t)
            widen_codes(reinterpret_cast<const int8_t*>(values) + t * d, scales[t], rows + t * d, d);
    }
    std::fill(rows + filled * d, rows + kv_block_tokens * d, 0.0F);  // the odd half of a last pair is among them
    return rows;
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
