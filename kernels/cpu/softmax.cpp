#include "kernels/cpu/softmax.hpp"

#include <cassert>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

float largest_of(const float* x, int64_t columns) {
    const F32 f;
    const int64_t width = static_cast<int64_t>(hn::Lanes(f));
    Lanes largest = hn::Set(f, -std::numeric_limits<float>::infinity());
    int64_t i = 0;
    for (; i + width <= columns; i += width) largest = hn::Max(largest, hn::LoadU(f, x + i));
    float result = hn::GetLane(hn::MaxOfLanes(f, largest));
    for (; i < columns; ++i) result = std::max(result, x[i]);
    return result;
}

void softmax_row(float* out, const float* x, int64_t columns) {
    const F32 f;
    const Lanes largest = hn::Set(f, largest_of(x, columns));
    for_lanes(columns, [&](int64_t i, auto load, auto store)
                           HWY_ATTR { store(exp_lanes(f, hn::Sub(load(x + i), largest)), out + i); });
    const double sum = sum_lanes(columns, [&](int64_t i, auto load) HWY_ATTR { return load(out + i); });
    const Lanes share = hn::Set(f, static_cast<float>(1.0 / sum));
    for_lanes(columns,
              [&](int64_t i, auto load, auto store) HWY_ATTR { store(hn::Mul(load(out + i), share), out + i); });
}

void softmax(const Tensor& out, const Tensor& x, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) softmax_row(out.row<float>(i), x.row<const float>(i), x.columns);
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(softmax);
}

void softmax_rows(const Tensor& out, const Tensor& x, int64_t row_begin, int64_t row_end) {
    assert(out.dtype == DType::f32 && x.dtype == DType::f32 && out.columns == x.columns);
    HWY_DYNAMIC_DISPATCH(softmax)(out, x, row_begin, row_end);
}

}  // namespace rondo::cpu
#endif
