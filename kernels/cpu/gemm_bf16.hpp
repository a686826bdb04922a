#pragma once

#include <cstdint>

#include "kernels/cpu/product_out.hpp"

namespace rondo::cpu {

/// Any number of rows x [rows, columns_padded] of bf16 by one panel of bf16 pairs, with AVX-512's products of pairs. A
/// row's result does not depend on the rows beside it.
void bf16_rows_panel(const uint16_t* x, int64_t x_stride, int64_t rows, const uint16_t* panel, int64_t columns_padded,
                     const ProductOut& out);

}  // namespace rondo::cpu
