#include "kernels/cpu/silu_mul.hpp"

#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/silu_mul.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

/// x / (1 + e^−x), written with e^−|x| so that nothing overflows and small results keep all their digits.
HWY_INLINE Lanes silu(F32 f, Lanes x) {
    const Lanes one = hn::Set(f, 1.0F);
    const Lanes power = exp_lanes(f, hn::Neg(hn::Abs(x)));
    const Lanes share = hn::IfThenElse(hn::Lt(x, hn::Zero(f)), power, one);
    return hn::Div(hn::Mul(x, share), hn::Add(one, power));
}

template <class To, class From>
void silu_mul_row(To* out, const From* gate, const From* up, int64_t columns) {
    for_lanes(columns, [&](int64_t i, auto load, auto store)
                           HWY_ATTR { store(hn::Mul(silu(F32(), load(gate + i)), load(up + i)), out + i); });
}

void silu_mul(const Tensor& out, const Tensor& x, int64_t begin, int64_t end) {
    with_elements_of(out.dtype, [&](auto to) {
        with_elements_of(x.dtype, [&](auto from) {
            for (int64_t i = begin; i < end; ++i) {
                const auto* gate = x.row<const decltype(from)>(i);
                silu_mul_row(out.row<decltype(to)>(i), gate, gate + out.columns, out.columns);
            }
        });
    });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(silu_mul);
}

void silu_mul_rows(const Tensor& out, const Tensor& x, int64_t row_begin, int64_t row_end) {
    assert(out.rows == x.rows && x.columns == 2 * out.columns);
    HWY_DYNAMIC_DISPATCH(silu_mul)(out, x, row_begin, row_end);
}

}  // namespace rondo::cpu
#endif
