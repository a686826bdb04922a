#include "kernels/cpu/rope.hpp"

#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// x [d] of one head; cos and sin [d/2].
template <class T>
void rotate_head(T* x, const float* cos, const float* sin, int64_t half) {
    for_lanes(half, [&](int64_t i, auto load, auto store) HWY_ATTR {
        const Lanes low = load(x + i);
        const Lanes high = load(x + half + i);
        const Lanes c = load(cos + i);
        const Lanes s = load(sin + i);
        store(hn::NegMulAdd(high, s, hn::Mul(low, c)), x + i);
        store(hn::MulAdd(low, s, hn::Mul(high, c)), x + half + i);
    });
}

void rope(const Tensor& x, const Tensor& angles, int heads, int64_t begin, int64_t end) {
    const int64_t half = angles.columns / 2;
    with_elements_of(x.dtype, [&](auto element) {
        for (int64_t i = begin; i < end; ++i) {
            auto* row = x.row<decltype(element)>(i);
            const float* cos = angles.row<const float>(i);
            for (int h = 0; h < heads; ++h) rotate_head(row + h * 2 * half, cos, cos + half, half);
        }
    });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(rope);
}

void rope_rows(const Tensor& x, const Tensor& angles, int heads, int64_t row_begin, int64_t row_end) {
    assert(angles.dtype == DType::f32 && angles.columns % 2 == 0 && x.columns == heads * angles.columns);
    HWY_DYNAMIC_DISPATCH(rope)(x, angles, heads, row_begin, row_end);
}

}  // namespace rondo::cpu
#endif
