#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::rms_norm. out and x: f32 or bf16, [rows, columns]; weight f32 [columns]. The mean
/// of squares is taken in f32 lanes and double sums, and bf16 is rounded once, on the way out.
void rms_norm_rows(const Tensor& out, const Tensor& x, const float* weight, float eps, int64_t row_begin,
                   int64_t row_end);

}  // namespace rondo::cpu
