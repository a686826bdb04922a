#include "kernels/cpu/gemm_rows.hpp"

#include <hwy/cache_control.h>

#include <algorithm>

#include "config/checked.hpp"
#include "kernels/cpu/dense_panels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

constexpr int registers = 4;             // of outputs, that a row's sums fill
constexpr int64_t rows_at_once = 96;     // a multiple of all that rows are taken together by
constexpr int64_t rows_that_widen = 12;  // more rows than these read a stretch of 16-bit weights as floats
constexpr int64_t prefetch_bytes = 4096;

/// What is prefetched while rows are multiplied: some cache lines with each two inputs.
class Ahead {
public:
    Ahead(const void* from, int64_t bytes, int64_t lines)
        : at_(static_cast<const char*>(from)), end_(at_ + bytes), lines_(lines) {}
    HWY_INLINE void ask() {
        for (int64_t i = 0; i < lines_ && at_ < end_; ++i, at_ += 64) hwy::Prefetch(at_);
    }

private:
    const char* at_;
    const char* end_;
    int64_t lines_;
};

struct Bf16Pairs {
    uint16_t bits;
};

/// The weights of input k (Odd: of input k + 1; k is even) for one register of outputs.
template <bool Odd>
HWY_INLINE Lanes load_weights(F32 f, const float* panel, int64_t k, int64_t n) {
    return hn::Load(f, panel + (k + Odd) * panel_outputs + n);
}

template <bool Odd>
HWY_INLINE Lanes load_weights(F32 f, const Bf16Pairs* panel, int64_t k, int64_t n) {
    const hn::Rebind<uint32_t, F32> u32;
    const auto pairs = hn::Load(u32, reinterpret_cast<const uint32_t*>(panel + k * panel_outputs) + n);
    return hn::BitCast(f, Odd ? hn::And(pairs, hn::Set(u32, 0xffff0000U)) : hn::ShiftLeft<16>(pairs));
}

template <bool Odd>
HWY_INLINE Lanes load_weights(F32 f, const hwy::float16_t* panel, int64_t k, int64_t n) {
    const hn::Rebind<hwy::float16_t, F32> f16;
    return hn::PromoteTo(f, hn::Load(f16, panel + (k + Odd) * panel_outputs + n));
}

/// Adds input k, or k + 1, to the sums of some rows.
template <bool Odd, int row_count, class W>
HWY_INLINE void add_input(const float* x, int64_t x_stride, const W* panel, int64_t k, int64_t first,
                          Lanes (&s)[row_count][registers]) {
    const F32 f;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    Lanes w[registers];
    for (int r = 0; r < registers; ++r) w[r] = load_weights<Odd>(f, panel, k, first + r * width);
    for (int m = 0; m < row_count; ++m) {
        const Lanes input = hn::Set(f, x[m * x_stride + k + Odd]);
        for (int r = 0; r < registers; ++r) s[m][r] = hn::MulAdd(input, w[r], s[m][r]);
    }
}

/// Adds inputs [0, count) to the sums of some rows, four registers of outputs from `first` on.
template <int row_count, class W>
HWY_INLINE void add_inputs(const float* x, int64_t x_stride, const W* panel, int64_t count, int64_t first, Ahead& ahead,
                           float* sums) {
    const F32 f;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    Lanes s[row_count][registers];
    for (int m = 0; m < row_count; ++m) {
        for (int r = 0; r < registers; ++r) s[m][r] = hn::Load(f, sums + m * panel_outputs + first + r * width);
    }
    for (int64_t k = 0; k < count; k += 2) {
        ahead.ask();
        add_input<false, row_count>(x, x_stride, panel, k, first, s);
        add_input<true, row_count>(x, x_stride, panel, k, first, s);
    }
    for (int m = 0; m < row_count; ++m) {
        for (int r = 0; r < registers; ++r) hn::Store(s[m][r], f, sums + m * panel_outputs + first + r * width);
    }
}

/// Rows that share a reading of the panel: all that 32 registers hold beside the weights (16 registers hold half).
constexpr int64_t together_max = 6;
template <class W>
HWY_INLINE void add_rows(int64_t rows, const float* x, int64_t x_stride, const W* panel, int64_t count, int64_t first,
                         Ahead& ahead, float* sums) {
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

/// How often a stretch is read for so many rows.
HWY_INLINE int64_t readings(int64_t rows) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
    return ceil_div(rows, lanes >= 16 ? together_max : together_max / 2) * (panel_outputs / (registers * lanes));
}

/// Adds inputs [0, count) to the sums of all rows.
template <class W>
HWY_INLINE void add_stretch(int64_t rows, const float* x, int64_t x_stride, const W* panel, int64_t count, Ahead& ahead,
                            float* sums) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
    const int64_t together = lanes >= 16 ? together_max : together_max / 2, step = registers * lanes;
    for (int64_t m = 0; m < rows; m += together) {
        for (int64_t first = 0; first < panel_outputs; first += step) {
            add_rows(std::min(together, rows - m), x + m * x_stride, x_stride, panel, count, first, ahead,
                     sums + m * panel_outputs);
        }
    }
}

/// Inputs [0, count) of a panel as floats [count][64].
template <class W>
HWY_INLINE void widen_stretch(const W* panel, int64_t count, float* wide) {
    const F32 f;
    const auto width = static_cast<int64_t>(hn::Lanes(f));
    for (int64_t k = 0; k < count; k += 2, wide += 2 * panel_outputs) {
        for (int64_t n = 0; n < panel_outputs; n += width) {
            hn::Store(load_weights<false>(f, panel, k, n), f, wide + n);
            hn::Store(load_weights<true>(f, panel, k, n), f, wide + panel_outputs + n);
        }
    }
}

/// Inputs of a panel that all rows meet before the next. The sums go to memory and back between. Floats that are not
/// widened meet wide registers twice as long, which leaves time to read a stretch from L2.
template <class W>
constexpr int64_t stretch_inputs = sizeof(W) == sizeof(float) && hn::MaxLanes(F32()) >= 16 ? 128 : 64;

/// Rows that read a stretch once ask for what they will need in a moment. More rows share the asking for the next
/// stretch among all their readings, so that memory is busy as long as they are.
template <class W>
HWY_INLINE Ahead ahead_of(const W* stretch, int64_t count, int64_t rows) {
    constexpr auto input_lines = static_cast<int64_t>(panel_outputs * sizeof(W) / 64);
    const int64_t bytes = count * input_lines * 64, reads = readings(rows);
    if (rows <= together_max) return {reinterpret_cast<const char*>(stretch) + prefetch_bytes, bytes, 2 * input_lines};
    return {stretch + count * panel_outputs, bytes, ceil_div(2 * input_lines, reads)};
}

template <class W>
void multiply_rows(const float* x, int64_t x_stride, int64_t rows, const W* panel, int64_t columns,
                   const ProductOut& out) {
    HWY_ALIGN float sums[rows_at_once * panel_outputs];
    for (int64_t begin = 0; begin < rows; begin += rows_at_once) {
        const int64_t some = std::min(rows_at_once, rows - begin);
        std::fill_n(sums, some * panel_outputs, 0.0F);
        for (int64_t k = 0; k < columns; k += stretch_inputs<W>) {
            const int64_t count = std::min(stretch_inputs<W>, columns - k);
            const float* const from = x + begin * x_stride + k;
            const W* const stretch = panel + k * panel_outputs;
            Ahead next = ahead_of(stretch, count, some);
            if (sizeof(W) < sizeof(float) && some > rows_that_widen) {
                HWY_ALIGN float wide[stretch_inputs<W> * panel_outputs];
                widen_stretch(stretch, count, wide);
                add_stretch(some, from, x_stride, wide, count, next, sums);
            } else {
                add_stretch(some, from, x_stride, stretch, count, next, sums);
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
