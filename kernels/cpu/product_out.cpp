#include "kernels/cpu/product_out.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/product_out.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

template <class T>
void write_rows(const float* sums, int64_t sums_stride, int64_t rows, const ProductOut& out) {
    for (int64_t m = 0; m < rows; ++m, sums += sums_stride) {
        auto* const to = reinterpret_cast<T*>(out.data) + m * out.stride;
        for_lanes(out.columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
            Lanes value = load(sums + i);
            if (out.bias != nullptr) value = hn::Add(value, load(out.bias + i));
            if (out.accumulate) value = hn::Add(load(to + i), value);
            store(value, to + i);
        });
    }
}

void write_product(const float* sums, int64_t sums_stride, int64_t rows, const ProductOut& out) {
    with_elements_of(out.dtype, [&](auto to) { write_rows<decltype(to)>(sums, sums_stride, rows, out); });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(write_product);
}

void write_product(const float* sums, int64_t sums_stride, int64_t rows, const ProductOut& out) {
    HWY_DYNAMIC_DISPATCH(write_product)(sums, sums_stride, rows, out);
}

}  // namespace rondo::cpu
#endif
