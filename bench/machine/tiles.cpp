#include "machine/loops.hpp"

#if defined(__x86_64__)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake of ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <cstring>

#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/cpu_features.hpp"

namespace rondo::bench {

namespace {

#define RONDO_LOOP_TILES __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16,amx-int8")))

constexpr int64_t tile_steps = loop_steps / 32;  // a product of tiles takes 16 cycles
constexpr int tile_numbers = 16 * 16;            // of a tile of sums

/// Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights, of which `input_bytes` are multiplied.
RONDO_LOOP_TILES void configure(int input_bytes) {
    cpu::TileConfig config;
    for (const int tile : {4, 5}) config.row_bytes[tile] = static_cast<uint16_t>(input_bytes);
    const auto quads = static_cast<uint8_t>(input_bytes / 4);
    const uint8_t rows[8] = {16, 16, 16, 16, 16, 16, quads, quads};
    std::memcpy(config.rows, rows, sizeof rows);
    cpu::load_config(config);
}

template <bool bytes>
RONDO_LOOP_TILES void loop_tiles() {
    configure(64);
    for (int64_t i = 0; i < tile_steps; ++i) {
        if constexpr (bytes) {
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        } else {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_release();
}

/// A tile's sums of 32 inputs, times the weights' scales and the inputs', onto totals.
RONDO_LOOP_TILES inline void add_scaled(const int32_t* sums, const float* weight_scales, const float* input_scales,
                                        float* totals) {
    const __m512 scale = _mm512_load_ps(weight_scales);
    for (int64_t m = 0; m < 16; ++m) {
        const __m512 floats = _mm512_cvtepi32_ps(_mm512_load_si512(sums + m * 16));
        const __m512 scaled = _mm512_mul_ps(floats, scale);
        const __m512 total = _mm512_load_ps(totals + m * 16);
        _mm512_store_ps(totals + m * 16, _mm512_fmadd_ps(scaled, _mm512_set1_ps(input_scales[m]), total));
    }
}

/// Each step is a block of 32 inputs of 32 rows by 32 outputs. A tile's sums leave it through memory.
RONDO_LOOP_TILES void loop_tiles_scaled() {
    alignas(64) int32_t sums[4][tile_numbers] = {};
    alignas(64) float totals[4][tile_numbers] = {}, scales[2][16] = {};
    configure(32);
    for (int64_t i = 0; i < tile_steps; ++i) {
        _tile_zero(0);
        _tile_dpbusd(0, 4, 6);
        _tile_zero(1);
        _tile_dpbusd(1, 4, 7);
        _tile_zero(2);
        _tile_dpbusd(2, 5, 6);
        _tile_zero(3);
        _tile_dpbusd(3, 5, 7);
        _tile_stored(0, sums[0], 64);
        _tile_stored(1, sums[1], 64);
        _tile_stored(2, sums[2], 64);
        _tile_stored(3, sums[3], 64);
        use(sums);
        for (int tile = 0; tile < 4; ++tile) add_scaled(sums[tile], scales[tile % 2], scales[tile / 2], totals[tile]);
    }
    use(totals);
    _tile_release();
}

/// Of a loop with four products of tiles a step, each with so many inputs.
double tile_rate(int threads, int repeat, int inputs, void (*loop)()) {
    return loop_rate(threads, repeat, 4.0 * 2 * tile_numbers * inputs, loop) * tile_steps / loop_steps;
}

}  // namespace

TileRates tile_rates(int threads, int repeat) {
    if (!cpu::cpu_features().amx_bf16) return {};
    const double bf16 = tile_rate(threads, repeat, 32, loop_tiles<false>);
    if (!__builtin_cpu_supports("amx-int8")) return {.bf16 = bf16};
    return {.bf16 = bf16,
            .int8 = tile_rate(threads, repeat, 64, loop_tiles<true>),
            .int8_scaled = tile_rate(threads, repeat, 32, loop_tiles_scaled)};
}

}  // namespace rondo::bench

#else

namespace rondo::bench {

TileRates tile_rates(int, int) {
    return {};
}

}  // namespace rondo::bench

#endif
