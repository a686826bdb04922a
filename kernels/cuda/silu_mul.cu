#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// out [rows, F], x [rows, 2F]: gate, then up. One block a row.
__global__ void silu_mul_kernel(Rows2d out, Rows2d x, int64_t columns) {
    const int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        const float gate = x.load(row, c);
        out.store(row, c, gate / (1.0F + expf(-gate)) * x.load(row, columns + c));
    }
}

}  // namespace

Status CudaOps::silu_mul(const Tensor& out, const Tensor& x) {
    assert(out.rows == x.rows && x.columns == 2 * out.columns);
    assert(is_activation(out.dtype) && is_activation(x.dtype));
    if (out.rows == 0 || out.columns == 0) return {};
    return launch(queue_, "silu_mul", dim3(static_cast<unsigned>(out.rows)), threads_for(out.columns), silu_mul_kernel,
                  Rows2d(out), Rows2d(x), out.columns);
}

}  // namespace rondo::cuda
