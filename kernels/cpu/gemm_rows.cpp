#include "kernels/cpu/gemm_rows.hpp"

#include <hwy/cache_control.h>

#include <algorithm>

#include "kernels/cpu/dense_panels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

constexpr int64_t inputs_per_step = 2;
constexpr int64_t prefetch_bytes = 4096;

/// The weights of inputs k and k+1 for one register of outputs.
struct TwoInputs {
    Lanes even;
    Lanes odd;
};

HWY_INLINE TwoInputs load_two(F32 f, const float* panel, int64_t k, int64_t n) {
    const float* const from = panel + k * panel_outputs + n;
    return {hn::Load(f, from), hn::Load(f, from + panel_outputs)};
}

struct Bf16Pairs {
    uint16_t bits;
};

HWY_INLINE TwoInputs load_two(F32 f, const Bf16Pairs* panel, int64_t k, int64_t n) {
    const hn::Rebind<uint32_t, F32> u32;
    const auto pairs = hn::Load(u32, reinterpret_cast<const uint32_t*>(panel + k * panel_outputs) + n);
    return {hn::BitCast(f, hn::ShiftLeft<16>(pairs)), hn::BitCast(f, hn::And(pairs, hn::Set(u32, 0xffff0000U)))};
}

HWY_INLINE TwoInputs load_two(F32 f, const hwy::float16_t* panel, int64_t k, int64_t n) {
    const hn::Rebind<hwy::float16_t, F32> f16;
    const hwy::float16_t* const from = panel + k * panel_outputs + n;
    return {hn::PromoteTo(f, hn::Load(f16, from)), hn::PromoteTo(f, hn::Load(f16, from + panel_outputs))};
}

/// `row_count` rows by the outputs [first, first + 4 registers): two partial sums each (even and odd inputs).
template <int row_count, class W>
HWY_INLINE void multiply_block(const float* x, int64_t x_stride, const W* panel, int64_t columns, int64_t first,
                               float* sums) {
    const F32 f;
    constexpr int registers = 4;
    const int64_t width = static_cast<int64_t>(hn::Lanes(f));
    Lanes even[row_count][registers], odd[row_count][registers];
    for (int m = 0; m < row_count; ++m) {
        for (int r = 0; r < registers; ++r) even[m][r] = odd[m][r] = hn::Zero(f);
    }
    for (int64_t k = 0; k < columns; k += inputs_per_step) {
        const W* const line = panel + k * panel_outputs + first;
        hwy::Prefetch(reinterpret_cast<const char*>(line) + prefetch_bytes);
        hwy::Prefetch(reinterpret_cast<const char*>(line + panel_outputs) + prefetch_bytes);
        TwoInputs w[registers];
        for (int r = 0; r < registers; ++r) w[r] = load_two(f, panel, k, first + r * width);
        for (int m = 0; m < row_count; ++m) {
            const Lanes x_even = hn::Set(f, x[m * x_stride + k]);
            const Lanes x_odd = hn::Set(f, x[m * x_stride + k + 1]);
            for (int r = 0; r < registers; ++r) {
                even[m][r] = hn::MulAdd(x_even, w[r].even, even[m][r]);
                odd[m][r] = hn::MulAdd(x_odd, w[r].odd, odd[m][r]);
            }
        }
    }
    for (int m = 0; m < row_count; ++m) {
        for (int r = 0; r < registers; ++r) {
            hn::StoreU(hn::Add(even[m][r], odd[m][r]), f, sums + m * panel_outputs + first + r * width);
        }
    }
}

template <class W>
void multiply_rows(const float* x, int64_t x_stride, int64_t rows, const W* panel, int64_t columns,
                   const ProductOut& out) {
    constexpr int together = 2;  // what keeps sums and weights in 16 registers (AVX2) or 32
    const int64_t step = 4 * static_cast<int64_t>(hn::Lanes(F32()));
    alignas(64) float sums[together * panel_outputs];
    for (int64_t m = 0; m < rows; m += together) {
        const bool two = m + 1 < rows;
        for (int64_t first = 0; first < panel_outputs; first += step) {
            if (two) {
                multiply_block<2>(x + m * x_stride, x_stride, panel, columns, first, sums);
            } else {
                multiply_block<1>(x + m * x_stride, x_stride, panel, columns, first, sums);
            }
        }
        write_product(sums, panel_outputs, two ? 2 : 1, out.from_row(m));
    }
}

void rows_panel(DType weight, const float* x, int64_t x_stride, int64_t rows, const std::byte* panel, int64_t columns,
                const ProductOut& out) {
    switch (weight) {
        case DType::f32:
            return multiply_rows(x, x_stride, rows, reinterpret_cast<const float*>(panel), columns, out);
        case DType::bf16:
            return multiply_rows(x, x_stride, rows, reinterpret_cast<const Bf16Pairs*>(panel), columns, out);
        default:
            return multiply_rows(x, x_stride, rows, reinterpret_cast<const hwy::float16_t*>(panel), columns, out);
    }
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(rows_panel);
}

void rows_panel(DType weight, const float* x, int64_t x_stride, int64_t rows, const std::byte* panel,
                int64_t columns_padded, const ProductOut& out) {
    HWY_DYNAMIC_DISPATCH(rows_panel)(weight, x, x_stride, rows, panel, columns_padded, out);
}

}  // namespace rondo::cpu
#endif
