#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::rope. x [rows, heads·d] f32 or bf16, in place; angles [rows, d] f32: cos, then
/// sin.
void rope_rows(const Tensor& x, const Tensor& angles, int heads, int64_t row_begin, int64_t row_end);

}  // namespace rondo::cpu
