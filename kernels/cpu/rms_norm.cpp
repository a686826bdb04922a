#include "kernels/cpu/rms_norm.hpp"

#include <cassert>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

template <class To, class From>
void rms_norm_row(To* out, const From* x, const float* weight, int64_t columns, float eps) {
    const double squares = sum_lanes(columns, [&](int64_t i, auto load) HWY_ATTR {
        const Lanes value = load(x + i);
        return hn::Mul(value, value);
    });
    const double mean = squares / static_cast<double>(columns);
    const Lanes inverse = hn::Set(F32(), static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(eps))));
    for_lanes(columns, [&](int64_t i, auto load, auto store)
                           HWY_ATTR { store(hn::Mul(hn::Mul(load(x + i), inverse), load(weight + i)), out + i); });
}

void rms_norm(const Tensor& out, const Tensor& x, const float* weight, float eps, int64_t begin, int64_t end) {
    with_elements_of(out.dtype, [&](auto to) {
        with_elements_of(x.dtype, [&](auto from) {
            for (int64_t i = begin; i < end; ++i) {
                rms_norm_row(out.row<decltype(to)>(i), x.row<const decltype(from)>(i), weight, x.columns, eps);
            }
        });
    });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(rms_norm);
}

void rms_norm_rows(const Tensor& out, const Tensor& x, const float* weight, float eps, int64_t row_begin,
                   int64_t row_end) {
    assert(out.rows == x.rows && out.columns == x.columns);
    HWY_DYNAMIC_DISPATCH(rms_norm)(out, x, weight, eps, row_begin, row_end);
}

}  // namespace rondo::cpu
#endif
