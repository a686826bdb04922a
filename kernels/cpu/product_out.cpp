#include "kernels/cpu/product_out.hpp"

#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/dense_panels.hpp"

namespace rondo::cpu {

void write_product(const float* sums, int64_t sums_stride, int64_t rows, const ProductOut& out) {
    for (int64_t m = 0; m < rows; ++m) {
        const float* const from = sums + m * sums_stride;
        float biased[panel_outputs];
        const float* value = from;
        if (out.bias != nullptr) {
            for (int64_t n = 0; n < out.columns; ++n) biased[n] = from[n] + out.bias[n];
            value = biased;
        }
        const ProductOut row = out.from_row(m);
        if (out.dtype == DType::bf16) {
            convert_row(value, reinterpret_cast<uint16_t*>(row.data), out.columns);
            continue;
        }
        auto* const to = reinterpret_cast<float*>(row.data);
        if (out.accumulate) {
            for (int64_t n = 0; n < out.columns; ++n) to[n] += value[n];
        } else {
            for (int64_t n = 0; n < out.columns; ++n) to[n] = value[n];
        }
    }
}

}  // namespace rondo::cpu
