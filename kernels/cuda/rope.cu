#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// x [rows, heads·d] in place, angles [rows, d]: cosines, then sines. One block a row; a thread turns whole pairs, (c,
/// c + d/2) of a head, so nothing is read after it is written.
__global__ void rope_kernel(Rows2d x, Rows2d angles, int64_t pairs, int64_t half) {
    const int64_t row = blockIdx.x;
    for (int64_t pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
        const int64_t c = pair % half;
        const int64_t first = pair / half * 2 * half + c;
        const float cosine = angles.load(row, c);
        const float sine = angles.load(row, half + c);
        const float a = x.load(row, first);
        const float b = x.load(row, first + half);
        x.store(row, first, a * cosine - b * sine);
        x.store(row, first + half, b * cosine + a * sine);
    }
}

}  // namespace

Status CudaOps::rope(const Tensor& x, const Tensor& angles, int heads) {
    assert(is_activation(x.dtype) && angles.dtype == DType::f32 && angles.rows == x.rows);
    assert(angles.columns % 2 == 0 && x.columns == heads * angles.columns);
    if (x.rows == 0 || x.columns == 0) return {};
    const int64_t half = angles.columns / 2;
    const int64_t pairs = heads * half;
    return launch(queue_, "rope", dim3(static_cast<unsigned>(x.rows)), threads_for(pairs), rope_kernel, Rows2d(x),
                  Rows2d(angles), pairs, half);
}

}  // namespace rondo::cuda
