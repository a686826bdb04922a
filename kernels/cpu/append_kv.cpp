#include "kernels/cpu/append_kv.hpp"

#include <cassert>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/append_kv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

template <class To, class From>
void store_row(const From* x, To* to, int64_t d) {
    for_lanes(d, [&](int64_t i, auto load, auto store) HWY_ATTR { store(load(x + i), to + i); });
}

HWY_INLINE uint16_t to_bf16(uint16_t x) {
    return x;
}
HWY_INLINE uint16_t to_bf16(float x) {
    return bf16_from_float(x);
}

/// One token of a pair-interleaved V: every other element. Single 16-bit stores, because the elements in between belong
/// to the other token of the pair and perhaps to another thread.
template <class From>
void store_every_other(const From* x, uint16_t* to, int64_t d) {
    for (int64_t i = 0; i < d; ++i) to[2 * i] = to_bf16(x[i]);
}

/// max|x| by comparing bits as integers, in which every NaN is larger than every number.
template <class From>
float largest_magnitude(const From* x, int64_t d) {
    const F32 f;
    const hn::Rebind<int32_t, F32> i32;
    auto largest = hn::Zero(i32);
    for_lanes(d, [&](int64_t i, auto load, auto)
                     HWY_ATTR { largest = hn::Max(largest, hn::BitCast(i32, hn::Abs(load(x + i)))); });
    return hn::GetLane(hn::BitCast(f, hn::MaxOfLanes(i32, largest)));
}

template <class From>
void store_codes(const From* x, int8_t* codes, float* scale_out, int64_t d) {
    const F32 f;
    const hn::Rebind<int8_t, F32> i8;
    float scale = largest_magnitude(x, d) / 127.0F;
    if (scale < std::numeric_limits<float>::min()) scale = 0.0F;
    *scale_out = scale;
    if (scale == 0.0F || !std::isfinite(scale)) {
        std::memset(codes, 0, static_cast<size_t>(d));
        return;
    }
    const Lanes divisor = hn::Set(f, scale);
    for_lanes(d, [&](int64_t i, auto load, auto) HWY_ATTR {
        int8_t whole[HWY_MAX_BYTES / sizeof(float)];
        hn::StoreU(hn::DemoteTo(i8, hn::NearestInt(hn::Div(load(x + i), divisor))), i8, whole);
        std::memcpy(codes + i, whole, static_cast<size_t>(std::min<int64_t>(hn::Lanes(f), d - i)));
    });
}

/// k and v [d] of one head into token `token` of its atom.
template <class From>
void append_token(const KvAtom& layout, std::byte* atom, int token, const From* k, const From* v) {
    const int64_t d = layout.head_dim;
    std::byte* values = atom + layout.half_bytes();
    if (layout.dtype == DType::f32) {
        store_row(k, reinterpret_cast<float*>(atom) + token * d, d);
        store_row(v, reinterpret_cast<float*>(values) + token * d, d);
    } else if (layout.dtype == DType::bf16) {
        store_row(k, reinterpret_cast<uint16_t*>(atom) + token * d, d);
        store_every_other(v, reinterpret_cast<uint16_t*>(values) + token / 2 * 2 * d + token % 2, d);
    } else {
        float* scales = reinterpret_cast<float*>(atom + layout.scales_offset());
        store_codes(k, reinterpret_cast<int8_t*>(atom) + token * d, scales + token, d);
        store_codes(v, reinterpret_cast<int8_t*>(values) + token * d, scales + kv_block_tokens + token, d);
    }
}

void append_kv(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots, int64_t begin, int64_t end) {
    const int64_t d = kv.atom.head_dim;
    with_elements_of(k.dtype, [&](auto from) {
        for (int64_t i = begin; i < end; ++i) {
            if (slots[i] < 0) continue;
            const auto* k_row = k.row<const decltype(from)>(i);
            const auto* v_row = v.row<const decltype(from)>(i);
            for (int h = 0; h < kv.heads; ++h) {
                std::byte* atom = kv.at(slots[i] / kv_block_tokens, h);
                append_token(kv.atom, atom, slots[i] % kv_block_tokens, k_row + h * d, v_row + h * d);
            }
        }
    });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(append_kv);
}

void append_kv_rows(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots, int64_t row_begin,
                    int64_t row_end) {
    assert(k.dtype == v.dtype && k.columns == int64_t{kv.heads} * kv.atom.head_dim && v.columns == k.columns);
    HWY_DYNAMIC_DISPATCH(append_kv)(kv, k, v, slots, row_begin, row_end);
}

}  // namespace rondo::cpu
#endif
