#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// out, x [rows, columns], weight [columns]. One block a row. In place is allowed: after the sum a thread reads and
/// writes its own columns only.
__global__ void rms_norm_kernel(Rows2d out, Rows2d x, const float* weight, float eps, int64_t columns) {
    const int64_t row = blockIdx.x;
    float squares = 0.0F;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        const float value = x.load(row, c);
        squares = fmaf(value, value, squares);
    }
    squares = over_block<Sum>(squares);
    const float scale = 1.0F / sqrtf(squares / static_cast<float>(columns) + eps);
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) out.store(row, c, x.load(row, c) * scale * weight[c]);
}

}  // namespace

Status CudaOps::rms_norm(const Tensor& out, const Tensor& x, const float* weight, float eps) {
    assert(out.rows == x.rows && out.columns == x.columns && x.columns > 0);
    assert(is_activation(out.dtype) && is_activation(x.dtype));
    if (x.rows == 0) return {};
    return launch(queue_, "rms_norm", dim3(static_cast<unsigned>(x.rows)), threads_for(x.columns), rms_norm_kernel,
                  Rows2d(out), Rows2d(x), weight, eps, x.columns);
}

}  // namespace rondo::cuda
