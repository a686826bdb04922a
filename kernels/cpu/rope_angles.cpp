#include "kernels/cpu/rope_angles.hpp"

#include <cassert>
#include <cmath>

namespace rondo::cpu {

/// Runs once a batch, not once a layer, so the C library's double functions are fast enough. An angle of 10⁵ radians in
/// f32 would have lost three digits before the sine is taken.
void rope_angles_rows(const Tensor& out, const int32_t* positions, const double* inverse_frequency, int64_t row_begin,
                      int64_t row_end) {
    assert(out.dtype == DType::f32 && out.columns % 2 == 0);
    const int64_t half = out.columns / 2;
    for (int64_t i = row_begin; i < row_end; ++i) {
        float* row = out.row<float>(i);
        for (int64_t j = 0; j < half; ++j) {
            const double angle = static_cast<double>(positions[i]) * inverse_frequency[j];
            row[j] = static_cast<float>(std::cos(angle));
            row[half + j] = static_cast<float>(std::sin(angle));
        }
    }
}

}  // namespace rondo::cpu
