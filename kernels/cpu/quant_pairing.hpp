#pragma once

#include <cstdint>

#include "kernels/dtype.hpp"

namespace rondo::cpu {

/// How many groups of a quantized weight a product of so many rows should multiply side by side on this machine: 1 or
/// 2. Measured once a process for each type, 0.5 ms, which changes no result: both have the same bits.
int64_t groups_at_once(DType type, int64_t rows);

}  // namespace rondo::cpu
