#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Where one panel's product goes: `columns` (at most 64) of some rows of a matmul's output, with what is to be added.
struct ProductOut {
    std::byte* data = nullptr;  ///< first row, first column of the panel
    DType dtype = DType::f32;
    int64_t stride = 0;  ///< elements
    int64_t columns = 0;
    const float* bias = nullptr;  ///< [columns] or none
    bool accumulate = false;      ///< f32 only

    ProductOut from_row(int64_t row) const {
        ProductOut moved = *this;
        moved.data += static_cast<size_t>(row * stride) * traits(dtype).block_bytes;
        return moved;
    }
};

/// Writes `rows` rows of f32 sums [rows, sums_stride] out: adds bias and what was there, converts.
void write_product(const float* sums, int64_t sums_stride, int64_t rows, const ProductOut& out);

}  // namespace rondo::cpu
