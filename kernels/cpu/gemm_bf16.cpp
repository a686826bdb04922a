#include "kernels/cpu/gemm_bf16.hpp"

#include <algorithm>

#include "kernels/cpu/avx512_bf16.hpp"
#include "kernels/cpu/dense_panels.hpp"

namespace rondo::cpu {

namespace {

constexpr int together = 6;             // rows: with four registers of outputs, all that 32 registers hold
constexpr int64_t pairs_at_once = 512;  // of a panel: 128 KiB, which stay in L2 for all rows
constexpr int64_t rows_at_once = 96;    // a multiple of `together`; their sums are 24 KiB
constexpr int64_t prefetch_bytes = 4096;
constexpr int registers = panel_outputs / 16;

/// Adds `pairs` pairs of inputs to the sums of some rows. The first rows to read a stretch of the panel prefetch
/// the next.
template <int rows>
RONDO_BF16 void add_pairs(const uint16_t* x, int64_t x_stride, const uint16_t* panel, int64_t pairs, bool ahead,
                          float* sums) {
    __m512 s[rows][registers];
    for (int m = 0; m < rows; ++m) {
        for (int r = 0; r < registers; ++r) s[m][r] = _mm512_load_ps(sums + m * panel_outputs + 16 * r);
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
        const uint16_t* const weights = panel + pair * 2 * panel_outputs;
        __m512bh w[registers];
        for (int r = 0; r < registers; ++r) {
            if (ahead) _mm_prefetch(reinterpret_cast<const char*>(weights + 32 * r) + prefetch_bytes, _MM_HINT_T0);
            w[r] = load_pairs(weights + 32 * r);
        }
        for (int m = 0; m < rows; ++m) {
            const __m512bh input = all_lanes(x + m * x_stride + 2 * pair);
            for (int r = 0; r < registers; ++r) s[m][r] = _mm512_dpbf16_ps(s[m][r], input, w[r]);
        }
    }
    for (int m = 0; m < rows; ++m) {
        for (int r = 0; r < registers; ++r) _mm512_store_ps(sums + m * panel_outputs + 16 * r, s[m][r]);
    }
}

constexpr decltype(&add_pairs<1>) by_rows[together] = {add_pairs<1>, add_pairs<2>, add_pairs<3>,
                                                       add_pairs<4>, add_pairs<5>, add_pairs<6>};

}  // namespace

void bf16_rows_panel(const uint16_t* x, int64_t x_stride, int64_t rows, const uint16_t* panel, int64_t columns_padded,
                     const ProductOut& out) {
    alignas(64) float sums[rows_at_once * panel_outputs];
    const int64_t pairs = columns_padded / 2;
    for (int64_t begin = 0; begin < rows; begin += rows_at_once) {
        const int64_t some = std::min(rows_at_once, rows - begin);
        std::fill_n(sums, some * panel_outputs, 0.0F);
        for (int64_t pair = 0; pair < pairs; pair += pairs_at_once) {
            for (int64_t m = 0; m < some; m += together) {
                const auto few = static_cast<size_t>(std::min<int64_t>(together, some - m));
                by_rows[few - 1](x + (begin + m) * x_stride + 2 * pair, x_stride, panel + pair * 2 * panel_outputs,
                                 std::min(pairs_at_once, pairs - pair), m == 0, sums + m * panel_outputs);
            }
        }
        write_product(sums, panel_outputs, some, out.from_row(begin));
    }
}

}  // namespace rondo::cpu
