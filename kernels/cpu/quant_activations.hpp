#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// A sum of products that begins with the bits of this float is, as it stands, the float lift + sum: no conversion is
/// needed. The sum must be less than 2^22; 32 products of bytes are.
constexpr float lift = 0x1.8p23F;
constexpr auto lift_bits = std::bit_cast<int32_t>(lift);
constexpr int wide_offset = 128;  ///< what an unsigned code of a widened weight is too large by (quant_wide.cpp)

constexpr int64_t strip_rows = 12;  ///< rows that lie side by side for products with widened weights

/// Activations as a quantized product reads them: int8 codes a with one scale s for each 32 inputs, x ≈ s·a, and the
/// sums of codes that the affine maps of weights need. A view of the caller's scratch; fits every weight type. A block
/// of a row stands at at(row, block) in all tables, one row behind another, or strip_rows side by side. In strips a
/// kernel finds all that it reads of some rows behind one pointer, where it would need one for each row.
struct QuantActivations {
    int64_t rows = 0;
    int64_t columns = 0;           ///< K, a multiple of 32
    int64_t side_by_side = 1;      ///< 1 or strip_rows
    int8_t* codes = nullptr;       ///< [32] of each block, −127…127
    float* scales = nullptr;       ///< of each block
    float* scaled_sums = nullptr;  ///< s · Σ a
    /// [2] of each block: s · Σ a over 16. Made where it is used, for each two groups of weights, it would take time of
    /// products.
    float* scaled_half_sums = nullptr;
    int32_t* sums = nullptr;       ///< Σ a; for rows one behind another, as the next
    int32_t* half_sums = nullptr;  ///< [2] of each block: Σ a over 16
    /// What sums of products with widened codes begin with, by block and by half of a block: −wide_offset · Σ a, and
    /// lift_bits, in the first half only. Made where it is used, it would take the port of every eighth product.
    int32_t* begins = nullptr;
    int32_t* half_begins = nullptr;

    int64_t at(int64_t row, int64_t block) const {
        return (row / side_by_side * (columns / 32) + block) * side_by_side + row % side_by_side;
    }
    /// `first` is a multiple of side_by_side.
    QuantActivations slice_rows(int64_t first, int64_t count) const {
        const int64_t blocks = first * (columns / 32);
        return {count,
                columns,
                side_by_side,
                codes + first * columns,
                scales + blocks,
                scaled_sums + blocks,
                scaled_half_sums + 2 * blocks,
                sums + blocks,
                half_sums + 2 * blocks,
                begins + blocks,
                half_begins + 2 * blocks};
    }
};

/// Bytes of scratch for activations of this shape. The shape is the caller's, already checked.
size_t activation_bytes(int64_t rows, int64_t columns, int64_t side_by_side = 1);

/// Lays the arrays out in `scratch` (64-byte aligned, at least activation_bytes); nothing is computed yet.
QuantActivations place_activations(std::span<std::byte> scratch, int64_t rows, int64_t columns,
                                   int64_t side_by_side = 1);

/// Quantizes rows [row_begin, row_end) of x (f32 or bf16, any stride). Rows are independent, so threads may share
/// `out`. The same bits on every machine. A NaN or infinity makes its block's scale NaN or infinite, so it shows in the
/// product.
void quantize_rows(const Tensor& x, const QuantActivations& out, int64_t row_begin, int64_t row_end);

/// All rows at once, on the calling thread.
QuantActivations quantize_activations(const Tensor& x, std::span<std::byte> scratch, int64_t side_by_side = 1);

/// A copy of some rows, from `first` on, that may lie in the other way.
QuantActivations copy_rows(const QuantActivations& x, int64_t first, int64_t count, std::span<std::byte> scratch,
                           int64_t side_by_side = 1);

}  // namespace rondo::cpu
