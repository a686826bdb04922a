#pragma once

#include <cstdint>

#include "kernels/kv_layout.hpp"
#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// Rows [row_begin, row_end) of Ops::append_kv; k and v are [rows, kv_heads·d], f32 or bf16. Only the bytes of these
/// tokens are written, so threads may write different slots at once.
///
/// i8: scale = max|x|/127 and code = x/scale rounded to nearest even. A row too small for a normal scale is stored as
/// zeros with scale 0. A row that holds a NaN or an infinity keeps it in its scale, so the row reads back as NaN.
void append_kv_rows(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots, int64_t row_begin,
                    int64_t row_end);

}  // namespace rondo::cpu
