#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/quant_kernels.hpp"

namespace rondo::cpu {

/// How a product of so many rows should multiply a quantized weight on this machine. It is measured once a process for
/// each type and each of three ranges of rows, in at most 3 ms, and changes no result: all ways have the same bits.
QuantWay quant_way(DType type, int64_t rows);
/// Every product takes this way, where there is VNNI; nothing: as measured.
void override_quant_way_for_test(std::optional<QuantWay> way);

}  // namespace rondo::cpu
