#pragma once

#include <cstdint>

#include "kernels/cpu/product_out.hpp"

namespace rondo::cpu {

/// Rows of x [rows, K padded] bf16 (stride a_stride elements) by one panel of bf16 pairs [K padded / 2][64][2], with
/// AMX tiles. Every row is summed over the inputs in the same order whatever its neighbours, so bulk and invariant
/// products are the same bits.
void amx_panel(const uint16_t* a, int64_t a_stride, int64_t rows, const uint16_t* panel, int64_t columns_padded,
               const ProductOut& out);

}  // namespace rondo::cpu
