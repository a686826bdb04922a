#pragma once

#include <cstdint>

#include "kernels/kv_layout.hpp"
#include "kernels/tensor.hpp"

namespace rondo::cpu {

/// The key of token `token` of an atom [d].
void read_key(const KvAtom& layout, const std::byte* atom, int token, float* k);
/// Token `token` of an atom as k and v [d].
void read_token(const KvAtom& layout, const std::byte* atom, int token, float* k, float* v);

/// Rows [row_begin, row_end) of Ops::read_kv: k and v [rows, kv_heads·d] f32 from slots[row].
void read_kv_rows(const Tensor& k, const Tensor& v, const KvLayer& kv, const int32_t* slots, int64_t row_begin,
                  int64_t row_end);

}  // namespace rondo::cpu
