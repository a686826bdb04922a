#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cpu/dense_panels.hpp"
#include "kernels/cpu/product_out.hpp"
#include "kernels/tensor.hpp"

namespace rondo::cpu {

inline constexpr int64_t tile_rows_at_once = 32;  ///< by which a panel streams past once
inline constexpr int64_t tile_stretch = 256;      ///< inputs, whose weights stay in the nearest cache for many rows

/// Rows of bf16 as tiles read them, so that a tile is one run of memory: for each 16 rows (the last may be fewer)
/// [inputs / 32][rows][32].
struct TileRows {
    const uint16_t* data = nullptr;
    int64_t rows = 0;
    int64_t inputs = 0;  ///< padded to 32

    /// From row `begin` on, a multiple of 16.
    TileRows slice(int64_t begin, int64_t count) const { return {data + begin * inputs, count, inputs}; }
};

/// Places row m of x among `rows` others in `to`; padding is zero.
void place_tile_row(const Tensor& x, int64_t m, uint16_t* to, int64_t inputs);

/// How a panel's weights lie for some inputs: distances in numbers. A tile is 16 rows of pairs, 16 outputs each.
struct TileWeights {
    const uint16_t* data = nullptr;
    int64_t step = 0;  ///< from 32 inputs to the next
    int64_t half = 0;  ///< from the first 32 outputs to the others
    int64_t tile = 0;  ///< from the first 16 outputs of a half to the others
    int64_t row = 0;   ///< from a pair to the next

    /// A panel of bf16 as it is stored, from an input on.
    static constexpr TileWeights of_panel(const uint16_t* panel, int64_t input) {
        return {panel + input * panel_outputs, 32 * panel_outputs, 64, 32, 2 * panel_outputs};
    }
    /// Tiles one behind another: [2 halves][steps][2 tiles].
    static constexpr TileWeights of_tiles(const uint16_t* tiles, int64_t steps) {
        return {tiles, 1024, steps * 1024, 512, 32};
    }
};

/// So few rows by a panel as it is stored, which streams past once. Every row is summed over the inputs in the same
/// order whatever its neighbours are, here and in amx_add, so bulk and invariant products are the same bits.
void amx_few_rows(const TileRows& x, const uint16_t* panel, const ProductOut& out);

/// `steps` steps of 32 inputs of a panel as it is stored, from an input on, as tiles one behind another.
void copy_tiles(const uint16_t* panel, int64_t input, int64_t steps, uint16_t* tiles);

/// Floats that amx_add keeps for rows by a panel.
constexpr int64_t tile_sums(int64_t rows) {
    return (rows + 31) / 32 * 32 * panel_outputs;
}

/// Work in pieces that is done beside products of tiles, which leave the other registers free.
struct TileBeside {
    int64_t pieces = 0;
    std::function<void(int64_t piece)> work;
};

/// Some inputs of a product of many rows by a panel: `count` from `begin` on, both multiples of 32. Sums begin with the
/// first inputs, lie in `sums` between calls, and are written to `out` with the last.
void amx_add(const TileRows& x, int64_t begin, int64_t count, const TileWeights& weights, float* sums,
             const ProductOut& out, const TileBeside& beside);

}  // namespace rondo::cpu
