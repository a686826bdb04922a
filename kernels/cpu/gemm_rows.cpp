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

constexpr int registers = 4;            // of outputs, that a row's sums fill
constexpr int64_t inputs_at_once = 64;  // of a panel: at most 16 KiB, which stay in L1 for all rows
constexpr int64_t rows_at_once = 64;
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

/// Adds inputs [0, count) to the sums of some rows, four registers of outputs from `first` on. The first rows to read a
/// stretch of the panel prefetch the next.
template <int row_count, class W>
HWY_INLINE void add_inputs(const float* x, int64_t x_stride, const W* panel, int64_t count, int64_t first, bool ahead,
                           float* sums) {
    const F32 f;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    Lanes s[row_count][registers];
    for (int m = 0; m < row_count; ++m) {
        for (int r = 0; r < registers; ++r) s[m][r] = hn::Load(f, sums + m * panel_outputs + first + r * width);
    }
    for (int64_t k = 0; k < count; k += 2) {
        const W* const line = panel + k * panel_outputs + first;
        if (ahead) {
            const auto* const next = reinterpret_cast<const char*>(line) + prefetch_bytes;
            const auto bytes = static_cast<int64_t>(2 * panel_outputs * sizeof(W));
            for (int64_t at = 0; at < bytes; at += 64) hwy::Prefetch(next + at);
        }
        for (int r = 0; r < registers; ++r) {
            const TwoInputs w = load_two(f, panel, k, first + r * width);
            for (int m = 0; m < row_count; ++m) {
                s[m][r] = hn::MulAdd(hn::Set(f, x[m * x_stride + k]), w.even, s[m][r]);
                s[m][r] = hn::MulAdd(hn::Set(f, x[m * x_stride + k + 1]), w.odd, s[m][r]);
            }
        }
    }
    for (int m = 0; m < row_count; ++m) {
        for (int r = 0; r < registers; ++r) hn::Store(s[m][r], f, sums + m * panel_outputs + first + r * width);
    }
}

/// Rows that share a reading of the panel: all that 32 registers hold beside the weights (16 registers hold half).
constexpr int64_t together_max = 6;
template <class W>
HWY_INLINE void add_rows(int64_t rows, const float* x, int64_t x_stride, const W* panel, int64_t count, int64_t first,
                         bool ahead, float* sums) {
    switch (rows) {
        case 1:
            return add_inputs<1>(x, x_stride, panel, count, first, ahead, sums);
        case 2:
            return add_inputs<2>(x, x_stride, panel, count, first, ahead, sums);
        case 3:
            return add_inputs<3>(x, x_stride, panel, count, first, ahead, sums);
        case 4:
            return add_inputs<4>(x, x_stride, panel, count, first, ahead, sums);
        case 5:
            return add_inputs<5>(x, x_stride, panel, count, first, ahead, sums);
        default:
            return add_inputs<6>(x, x_stride, panel, count, first, ahead, sums);
    }
}

template <class W>
void multiply_rows(const float* x, int64_t x_stride, int64_t rows, const W* panel, int64_t columns,
                   const ProductOut& out) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
    const int64_t together = lanes >= 16 ? together_max : 3, step = registers * lanes;
    HWY_ALIGN float sums[rows_at_once * panel_outputs];
    for (int64_t begin = 0; begin < rows; begin += rows_at_once) {
        const int64_t some = std::min(rows_at_once, rows - begin);
        std::fill_n(sums, some * panel_outputs, 0.0F);
        for (int64_t k = 0; k < columns; k += inputs_at_once) {
            const int64_t count = std::min(inputs_at_once, columns - k);
            for (int64_t m = 0; m < some; m += together) {
                for (int64_t first = 0; first < panel_outputs; first += step) {
                    add_rows(std::min(together, some - m), x + (begin + m) * x_stride + k, x_stride,
                             panel + k * panel_outputs, count, first, m == 0 && first == 0, sums + m * panel_outputs);
                }
            }
        }
        write_product(sums, panel_outputs, some, out.from_row(begin));
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
