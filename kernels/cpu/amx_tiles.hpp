#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512_bf16.hpp"

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

}  // namespace rondo::cpu
