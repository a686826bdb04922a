#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quant_activations.hpp"
#include "kernels/dtype.hpp"

namespace rondo::cpu {

/// How VNNI multiplies the groups of a product; the bits are the same.
enum class QuantWay {
    alone,     ///< one group at a time, its codes unpacked for every few rows
    in_pairs,  ///< two groups side by side, which share what is read of the inputs
    widened,   ///< the same, their codes and scales unpacked once for all rows, which lie side by side
};

/// One product with packed quantized weights (quant_layout.hpp): y[m, n] (= or +=) Σ_k x[m, k] · w[n, k] + bias[n] for
/// the rows n of some groups. Every kernel takes the blocks of a row in order, with the same integers and the same
/// sequence of float operations for each (m, n). With fused multiply-add, all kernels give the same bits; without it,
/// they differ by the rounding of K/32 products.
struct QuantProduct {
    DType type = DType::q8_0;
    int64_t outputs = 0;                 ///< N
    int64_t columns = 0;                 ///< K
    const std::byte* storage = nullptr;  ///< of group 0
    int64_t group_begin = 0;
    int64_t group_end = 0;
    float* y = nullptr;  ///< row m's output n stands at y[m·y_stride + n]
    int64_t y_stride = 0;
    const float* bias = nullptr;  ///< [N] or none
    bool accumulate = false;
    QuantWay way = QuantWay::alone;
    std::byte* wide = nullptr;  ///< wide_bytes, 64-byte aligned, to widen groups in
};

/// Needs AVX-512 (F, BW, VL, DQ) and VNNI.
void multiply_vnni(const QuantProduct& product, const QuantActivations& x);
/// The same, widened.
void multiply_wide(const QuantProduct& product, const QuantActivations& x);
/// Bytes of memory that multiply_wide needs for two groups and `rows` rows of x.
int64_t wide_bytes(DType type, int64_t columns, int64_t rows);
/// Any machine; Highway chooses the instructions.
void multiply_portable(const QuantProduct& product, const QuantActivations& x);

/// Block b of a group's chunk of `blocks` as a tile of bf16: 32 inputs, in pairs, of 16 rows. Needs AVX-512 with bf16.
void unpack_tile(DType type, const std::byte* chunk, int64_t blocks, int64_t b, uint16_t* out);

}  // namespace rondo::cpu
