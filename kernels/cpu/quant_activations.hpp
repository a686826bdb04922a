#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Activations as a quantized product reads them: int8 codes a with one scale s for each 32 inputs, x ≈ s·a, and the
/// sums of codes that the affine maps of weights need. A view of the caller's scratch; fits every weight type.
struct QuantActivations {
    int64_t rows = 0;
    int64_t columns = 0;           ///< K, a multiple of 32
    int8_t* codes = nullptr;       ///< [rows, K], −127…127
    float* scales = nullptr;       ///< [rows, K/32]
    float* scaled_sums = nullptr;  ///< [rows, K/32]: s · Σ a
    int32_t* sums = nullptr;       ///< [rows, K/32]: Σ a
    int32_t* half_sums = nullptr;  ///< [rows, K/16]: Σ a over 16

    QuantActivations slice_rows(int64_t first, int64_t count) const {
        const int64_t blocks = first * (columns / 32);
        return {count,
                columns,
                codes + first * columns,
                scales + blocks,
                scaled_sums + blocks,
                sums + blocks,
                half_sums + 2 * blocks};
    }
};

/// Bytes of scratch for activations of this shape. The shape is the caller's, already checked.
size_t activation_bytes(int64_t rows, int64_t columns);

/// Lays the arrays out in `scratch` (64-byte aligned, at least activation_bytes); nothing is computed yet.
QuantActivations place_activations(std::span<std::byte> scratch, int64_t rows, int64_t columns);

/// Quantizes rows [row_begin, row_end) of x (f32 or bf16, any stride). Rows are independent, so threads may share
/// `out`. The same bits on every machine. A NaN or infinity makes its block's scale NaN or infinite, so it shows in the
/// product.
void quantize_rows(const Tensor& x, const QuantActivations& out, int64_t row_begin, int64_t row_end);

/// All rows at once, on the calling thread.
QuantActivations quantize_activations(const Tensor& x, std::span<std::byte> scratch);

}  // namespace rondo::cpu
