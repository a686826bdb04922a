#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// out, x [rows, columns] f32. One block a row. In place is allowed: a thread writes its own columns only, after its
/// last look at them.
__global__ void softmax_kernel(Rows2d out, Rows2d x, int64_t columns) {
    const int64_t row = blockIdx.x;
    float largest = Largest::identity;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) largest = fmaxf(largest, x.load(row, c));
    largest = over_block<Largest>(largest);
    float sum = 0.0F;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(x.load(row, c) - largest);
    sum = over_block<Sum>(sum);
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) out.store(row, c, expf(x.load(row, c) - largest) / sum);
}

}  // namespace

Status CudaOps::softmax(const Tensor& out, const Tensor& x) {
    assert(out.rows == x.rows && out.columns == x.columns && out.dtype == DType::f32 && x.dtype == DType::f32);
    if (x.rows == 0 || x.columns == 0) return {};
    return launch(queue_, "softmax", dim3(static_cast<unsigned>(x.rows)), threads_for(x.columns), softmax_kernel,
                  Rows2d(out), Rows2d(x), x.columns);
}

}  // namespace rondo::cuda
