#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::take_rows: out row i = x row rows[i], of any one type that is not quantized.
void take_rows_rows(const Tensor& out, const Tensor& x, const int32_t* rows, int64_t row_begin, int64_t row_end);

}  // namespace rondo::cpu
