#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::rope_angles. out [rows, d] f32; positions [rows]; inverse_frequency [d/2].
void rope_angles_rows(const Tensor& out, const int32_t* positions, const double* inverse_frequency, int64_t row_begin,
                      int64_t row_end);

}  // namespace rondo::cpu
