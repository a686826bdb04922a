#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// out [rows, d] f32, positions [rows], inverse_frequency [d/2]. One block a row. In double, because at position 100
/// 000 a float angle is off by thousandths.
__global__ void rope_angles_kernel(Rows2d out, const int32_t* positions, const double* inverse_frequency,
                                   int64_t half) {
    const int64_t row = blockIdx.x;
    const double position = positions[row];
    for (int64_t c = threadIdx.x; c < half; c += blockDim.x) {
        double sine = 0.0;
        double cosine = 0.0;
        sincos(position * inverse_frequency[c], &sine, &cosine);
        out.store(row, c, static_cast<float>(cosine));
        out.store(row, half + c, static_cast<float>(sine));
    }
}

}  // namespace

Status CudaOps::rope_angles(const Tensor& out, const int32_t* positions, const double* inverse_frequency) {
    assert(out.dtype == DType::f32 && out.columns > 0 && out.columns % 2 == 0);
    if (out.rows == 0) return {};
    const int64_t half = out.columns / 2;
    return launch(queue_, "rope_angles", dim3(static_cast<unsigned>(out.rows)), threads_for(half), rope_angles_kernel,
                  Rows2d(out), positions, inverse_frequency, half);
}

}  // namespace rondo::cuda
