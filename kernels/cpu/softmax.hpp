#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::softmax: f32, in place allowed. −inf weighs nothing; a NaN, or a row of −inf
/// alone, makes the whole row NaN. Weights below e^−87 of the largest are zero.
void softmax_rows(const Tensor& out, const Tensor& x, int64_t row_begin, int64_t row_end);

}  // namespace rondo::cpu
