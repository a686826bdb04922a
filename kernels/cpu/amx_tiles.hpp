#pragma once

#include <immintrin.h>

#include <cstdint>

/// What the AMX kernel files share. Only they include this header.
#define RONDO_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))

namespace rondo::cpu {

inline constexpr int64_t tile_rows = 16;
inline constexpr int64_t tile_inputs = 32;  ///< bf16 in a tile's 64-byte row

/// The layout that `ldtilecfg` reads. All eight tiles are configured: one with columns but no rows is a fault.
struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {};
};

/// Loads a configuration; all tiles become zero. The empty asm keeps the compiler from dropping stores that only the
/// instruction reads.
RONDO_AMX inline void load_config(const TileConfig& config) {
    asm volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

/// 2^x for x that is hardly above 0, within 3e-6, which is little beside the rounding of a weight to bf16; 0 far below.
RONDO_AMX inline __m512 exp2_lanes(__m512 x) {
    const __m512 part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x − ⌊x⌋
    __m512 p = _mm512_set1_ps(1.3426684e-2F);
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(5.2242474e-2F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(2.4128021e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(6.9304485e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(1.0F));
    return _mm512_scalef_ps(p, x);  // · 2^⌊x⌋
}

}  // namespace rondo::cpu
