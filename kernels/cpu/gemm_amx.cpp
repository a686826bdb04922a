#include "kernels/cpu/gemm_amx.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/dense_panels.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t step_elements = tile_inputs * panel_outputs;  // of a panel, for one step over the inputs
constexpr int64_t prefetch_bytes = 8192;

/// Tiles 0–3 sums (two rows of tiles by two), 4 and 5 inputs, 6 and 7 weights.
RONDO_AMX void configure_pair(int64_t first_rows, int64_t second_rows) {
    TileConfig config;
    const auto first = static_cast<uint8_t>(first_rows);
    const auto second = static_cast<uint8_t>(second_rows);
    const uint8_t rows[8] = {first, first, second, second, first, second, tile_rows, tile_rows};
    std::memcpy(config.rows, rows, sizeof rows);
    load_config(config);
}

/// Tiles 0–3 sums of 64 outputs, 4 inputs, 5–7 weights.
RONDO_AMX void configure_single(int64_t rows_used) {
    TileConfig config;
    const auto used = static_cast<uint8_t>(rows_used);
    const uint8_t rows[8] = {used, used, used, used, used, tile_rows, tile_rows, tile_rows};
    std::memcpy(config.rows, rows, sizeof rows);
    load_config(config);
}

/// `rows` rows of 32 or 64 sums out of a buffer that is still in L1.
RONDO_AMX void write_sums(const float* sums, int64_t width, int64_t rows, int64_t first_column, const ProductOut& out) {
    const int64_t columns = std::min(width, out.columns - first_column);
    for (int64_t n = 0; n < columns; n += 16) {
        const auto mask = static_cast<__mmask16>(columns - n >= 16 ? 0xffff : (1 << (columns - n)) - 1);
        const int64_t column = first_column + n;
        const __m512 bias = out.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, out.bias + column);
        for (int64_t m = 0; m < rows; ++m) {
            __m512 value = _mm512_add_ps(_mm512_load_ps(sums + m * width + n), bias);
            if (out.dtype == DType::bf16) {
                auto* const to = reinterpret_cast<uint16_t*>(out.data) + m * out.stride + column;
                _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(value));
            } else {
                auto* const to = reinterpret_cast<float*>(out.data) + m * out.stride + column;
                if (out.accumulate) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, to));
                _mm512_mask_storeu_ps(to, mask, value);
            }
        }
    }
}

/// Up to 32 rows by half a panel. Four sums in flight hide the latency of a tile product.
RONDO_AMX void multiply_pair(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t columns_padded,
                             float* sums) {
    const uint16_t* const a_second = a + tile_rows * a_stride;
    constexpr int64_t b_stride = panel_outputs * 2 * sizeof(uint16_t);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < columns_padded; k += tile_inputs, b += step_elements) {
        _tile_loadd(4, a + k, a_stride * sizeof(uint16_t));
        _tile_loadd(6, b, b_stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + 32, b_stride);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a_second + k, a_stride * sizeof(uint16_t));
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    constexpr int64_t width = 32;
    _tile_stored(0, sums, width * sizeof(float));
    _tile_stored(1, sums + 16, width * sizeof(float));
    _tile_stored(2, sums + tile_rows * width, width * sizeof(float));
    _tile_stored(3, sums + tile_rows * width + 16, width * sizeof(float));
}

/// Up to 16 rows by a whole panel: the panel streams past once, which is what decoding waits for.
RONDO_AMX void multiply_single(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t columns_padded,
                               float* sums) {
    constexpr int64_t b_stride = panel_outputs * 2 * sizeof(uint16_t);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < columns_padded; k += tile_inputs, b += step_elements) {
        const char* const ahead = reinterpret_cast<const char*>(b) + prefetch_bytes;
        for (int64_t line = 0; line < step_elements * 2; line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
        _tile_loadd(4, a + k, a_stride * sizeof(uint16_t));
        _tile_loadd(5, b, b_stride);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, b + 32, b_stride);
        _tile_dpbf16ps(1, 4, 6);
        _tile_loadd(7, b + 64, b_stride);
        _tile_dpbf16ps(2, 4, 7);
        _tile_loadd(5, b + 96, b_stride);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, sums, panel_outputs * sizeof(float));
    _tile_stored(1, sums + 16, panel_outputs * sizeof(float));
    _tile_stored(2, sums + 32, panel_outputs * sizeof(float));
    _tile_stored(3, sums + 48, panel_outputs * sizeof(float));
}

}  // namespace

RONDO_AMX void amx_panel(const uint16_t* a, int64_t a_stride, int64_t rows, const uint16_t* panel,
                         int64_t columns_padded, const ProductOut& out) {
    alignas(64) float sums[tile_rows * panel_outputs];
    int64_t row = 0;
    // Half a panel at a time, so that it stays in L2 while all the rows pass.
    const int64_t left = rows % 32;
    const int64_t paired = rows <= tile_rows ? 0 : left == 0 || left > tile_rows || rows < 32 ? rows : rows - left;
    for (int64_t half = 0; half < 2 && paired > 0; ++half) {
        if (half * 32 >= out.columns) break;
        int64_t configured = 0;
        for (row = 0; row < paired; row += 32) {
            const int64_t used = std::min<int64_t>(32, paired - row);
            if (used != configured) configure_pair(tile_rows, used - tile_rows);
            configured = used;
            multiply_pair(a + row * a_stride, a_stride, panel + half * 64, columns_padded, sums);
            write_sums(sums, 32, used, half * 32, out.from_row(row));
        }
    }
    row = paired;
    if (row < rows) {
        configure_single(rows - row);
        multiply_single(a + row * a_stride, a_stride, panel, columns_padded, sums);
        write_sums(sums, panel_outputs, rows - row, 0, out.from_row(row));
    }
    _tile_release();
}

}  // namespace rondo::cpu
