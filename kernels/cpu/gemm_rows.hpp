#pragma once

#include <cstdint>

#include "kernels/cpu/product_out.hpp"
#include "kernels/dtype.hpp"

namespace rondo::cpu {

/// Rows of x [rows, K padded] f32 by one panel of f32, bf16 or f16 (dense_panels.hpp has the layouts), read as it
/// lies. Every row is summed in the same order whatever its neighbours.
void rows_panel(DType weight, const float* x, int64_t x_stride, int64_t rows, const std::byte* panel,
                int64_t columns_padded, const ProductOut& out);

}  // namespace rondo::cpu
