#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// x [rows, heads·d] in place, weight [d]. One block a (row, head). After the sum a thread reads and writes its own
/// columns only.
__global__ void head_norm_kernel(Rows2d x, const float* weight, float eps, int64_t d) {
    const int64_t row = blockIdx.x;
    const int64_t first = int64_t{blockIdx.y} * d;
    float squares = 0.0F;
    for (int64_t c = threadIdx.x; c < d; c += blockDim.x) {
        const float value = x.load(row, first + c);
        squares = fmaf(value, value, squares);
    }
    squares = over_block<Sum>(squares);
    const float scale = 1.0F / sqrtf(squares / static_cast<float>(d) + eps);
    for (int64_t c = threadIdx.x; c < d; c += blockDim.x) {
        x.store(row, first + c, x.load(row, first + c) * scale * weight[c]);
    }
}

}  // namespace

Status CudaOps::head_norm(const Tensor& x, const float* weight, int heads, float eps) {
    assert(is_activation(x.dtype) && heads > 0 && x.columns > 0 && x.columns % heads == 0);
    if (x.rows == 0) return {};
    const int64_t d = x.columns / heads;
    const dim3 grid(static_cast<unsigned>(x.rows), static_cast<unsigned>(heads));
    return launch(queue_, "head_norm", grid, threads_for(d), head_norm_kernel, Rows2d(x), weight, eps, d);
}

}  // namespace rondo::cuda
