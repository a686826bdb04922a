#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::silu_mul. out [rows, F], x [rows, 2F]: gate, then up; f32 or bf16 each.
void silu_mul_rows(const Tensor& out, const Tensor& x, int64_t row_begin, int64_t row_end);

}  // namespace rondo::cpu
