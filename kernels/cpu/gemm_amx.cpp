#include "kernels/cpu/gemm_amx.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/convert.hpp"

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

/// 16 sums of a row, from the panel's output `column` on.
RONDO_AMX inline void write_sums(__m512 value, int64_t row, int64_t column, const ProductOut& out) {
    const int64_t left = out.columns - column;
    if (left <= 0) return;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1);
    if (out.bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, out.bias + column));
    if (out.dtype == DType::bf16) {
        auto* const to = reinterpret_cast<uint16_t*>(out.data) + row * out.stride + column;
        _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(value));
    } else {
        auto* const to = reinterpret_cast<float*>(out.data) + row * out.stride + column;
        if (out.accumulate) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, to));
        _mm512_mask_storeu_ps(to, mask, value);
    }
}

/// A tile of sums, which is still in L1.
RONDO_AMX void write_tile(const float* sums, int64_t rows, int64_t row, int64_t column, const ProductOut& out) {
    for (int64_t m = 0; m < rows; ++m) write_sums(_mm512_load_ps(sums + m * 16), row + m, column, out);
}

constexpr int64_t tile_numbers = 256;  // sums of a tile

/// Where 16 rows of x, or the fewer last ones, have their tiles.
struct RowTiles {
    RowTiles(const TileRows& x, int64_t row, int64_t input)
        : rows(std::min(tile_rows, x.rows - row)),
          step(rows * tile_inputs),
          at(x.data + row * x.inputs + input * rows) {}
    int64_t rows, step;
    const uint16_t* at;
};

/// Up to 16 rows by a whole panel: the panel streams past once, which is what decoding waits for.
RONDO_AMX void multiply_single(RowTiles a, const uint16_t* b, int64_t inputs, float* sums) {
    constexpr int64_t b_stride = panel_outputs * 2 * sizeof(uint16_t);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < inputs; k += tile_inputs, b += step_elements, a.at += a.step) {
        const char* const ahead = reinterpret_cast<const char*>(b) + prefetch_bytes;
        for (int64_t line = 0; line < step_elements * 2; line += 64) _mm_prefetch(ahead + line, _MM_HINT_T0);
        _tile_loadd(4, a.at, 64);
        _tile_loadd(5, b, b_stride);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, b + 32, b_stride);
        _tile_dpbf16ps(1, 4, 6);
        _tile_loadd(7, b + 64, b_stride);
        _tile_dpbf16ps(2, 4, 7);
        _tile_loadd(5, b + 96, b_stride);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + tile_numbers, 64);
    _tile_stored(2, sums + 2 * tile_numbers, 64);
    _tile_stored(3, sums + 3 * tile_numbers, 64);
}

/// Pieces of work spread over so many steps.
class Spread {
public:
    Spread(const TileBeside& beside, int64_t steps) : beside_(beside), steps_(steps) {}
    void step() {
        for (due_ += beside_.pieces; due_ >= steps_; due_ -= steps_) beside_.work(done_++);
    }

private:
    const TileBeside& beside_;
    int64_t steps_, due_ = 0, done_ = 0;
};

/// Up to 32 rows by half a panel. Four sums in flight hide the latency of a tile product.
RONDO_AMX void multiply_pair(RowTiles a, RowTiles second, const TileWeights& w, const uint16_t* b, int64_t inputs,
                             Spread& beside) {
    const int64_t stride = w.row * static_cast<int64_t>(sizeof(uint16_t));
    for (int64_t k = 0; k < inputs; k += tile_inputs, b += w.step) {
        _tile_loadd(4, a.at, 64);
        _tile_loadd(6, b, stride);
        _tile_dpbf16ps(0, 4, 6);
        beside.step();
        _tile_loadd(7, b + w.tile, stride);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, second.at, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a.at += a.step;
        second.at += second.step;
    }
}

/// Rows of which a pair of tiles has none are a copy of one of the others: a tile without rows is a fault.
RONDO_AMX void add_rows(const TileRows& x, int64_t row, int64_t begin, int64_t count, const TileWeights& weights,
                        int64_t half, float* sums, const ProductOut& out, Spread& beside, int64_t& configured) {
    const int64_t used = std::min<int64_t>(32, x.rows - row);
    const RowTiles first(x, row, begin);
    const RowTiles second = used > tile_rows ? RowTiles(x, row + tile_rows, begin) : first;
    const int64_t second_rows = std::max<int64_t>(1, used - tile_rows);
    if (used != configured) configure_pair(first.rows, second_rows);
    configured = used;
    if (begin == 0) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, 64);
        _tile_loadd(1, sums + tile_numbers, 64);
        _tile_loadd(2, sums + 2 * tile_numbers, 64);
        _tile_loadd(3, sums + 3 * tile_numbers, 64);
    }
    multiply_pair(first, second, weights, weights.data + half * weights.half, count, beside);
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + tile_numbers, 64);
    _tile_stored(2, sums + 2 * tile_numbers, 64);
    _tile_stored(3, sums + 3 * tile_numbers, 64);
    if (begin + count < x.inputs) return;
    for (int64_t tile = 0; tile < 4; ++tile) {
        const int64_t rows = tile < 2 ? first.rows : used - tile_rows;
        write_tile(sums + tile * tile_numbers, rows, row + tile / 2 * tile_rows, half * 32 + tile % 2 * 16, out);
    }
}

}  // namespace

void place_tile_row(const Tensor& x, int64_t m, uint16_t* to, int64_t inputs) {
    constexpr int64_t some = 1024;
    alignas(64) uint16_t row[some];
    const int64_t first = m / tile_rows * tile_rows, rows = std::min(tile_rows, x.rows - first);
    uint16_t* at = to + first * inputs + (m - first) * tile_inputs;
    for (int64_t begin = 0; begin < inputs; begin += some) {
        const int64_t count = std::min(some, inputs - begin), own = std::min(count, x.columns - begin);
        if (x.dtype == DType::bf16) {
            std::memcpy(row, x.row<uint16_t>(m) + begin, static_cast<size_t>(own) * sizeof(uint16_t));
        } else {
            convert_row(x.row<float>(m) + begin, row, own);
        }
        std::fill(row + own, row + count, uint16_t{0});
        for (int64_t k = 0; k < count; k += tile_inputs, at += rows * tile_inputs)
            std::memcpy(at, row + k, tile_inputs * sizeof(uint16_t));
    }
}

RONDO_AMX void copy_tiles(const uint16_t* panel, int64_t input, int64_t steps, uint16_t* tiles) {
    const TileWeights from = TileWeights::of_panel(panel, input), to = TileWeights::of_tiles(tiles, steps);
    for (int64_t step = 0; step < steps; ++step) {
        for (int64_t pair = 0; pair < 16; ++pair) {
            const uint16_t* const row = from.data + step * from.step + pair * from.row;
            for (int64_t i = 0; i < 4; ++i) {
                const __m512i outputs = _mm512_load_si512(row + i / 2 * from.half + i % 2 * from.tile);
                uint16_t* const at = tiles + i / 2 * to.half + step * to.step + i % 2 * to.tile + pair * to.row;
                _mm512_store_si512(at, outputs);
            }
        }
    }
}

RONDO_AMX void amx_few_rows(const TileRows& x, const uint16_t* panel, const ProductOut& out) {
    alignas(64) float sums[4 * tile_numbers];
    if (x.rows <= tile_rows) {
        configure_single(x.rows);
        multiply_single(RowTiles(x, 0, 0), panel, x.inputs, sums);
        for (int64_t tile = 0; tile < 4; ++tile) write_tile(sums + tile * tile_numbers, x.rows, 0, tile * 16, out);
    } else {
        const TileBeside nothing;
        Spread none(nothing, 1);
        int64_t configured = 0;
        const TileWeights weights = TileWeights::of_panel(panel, 0);
        for (int64_t half = 0; half * 32 < out.columns; ++half)
            add_rows(x, 0, 0, x.inputs, weights, half, sums, out, none, configured);
    }
    _tile_release();
}

RONDO_AMX void amx_add(const TileRows& x, int64_t begin, int64_t count, const TileWeights& weights, float* sums,
                       const ProductOut& out, const TileBeside& beside) {
    int64_t configured = 0;
    const int64_t halves = (out.columns + 31) / 32, blocks = (x.rows + 31) / 32;
    Spread spread(beside, halves * blocks * count / tile_inputs);
    for (int64_t half = 0; half < halves; ++half) {
        for (int64_t row = 0; row < x.rows; row += 32, sums += 4 * tile_numbers)
            add_rows(x, row, begin, count, weights, half, sums, out, spread, configured);
    }
    _tile_release();
}

}  // namespace rondo::cpu
