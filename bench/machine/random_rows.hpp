#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dtype.hpp"

namespace rondo::bench {

/// The bytes of a weight file's rows of any type, random, about zero with deviations near 0.02.
std::vector<std::byte> random_rows(DType type, int64_t rows, int64_t columns);

}  // namespace rondo::bench
