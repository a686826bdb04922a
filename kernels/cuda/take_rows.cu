#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// out [count, columns], x […, columns], rows [count]; strides in elements. One block a row of out. Unit has an
/// element's size.
template <class Unit>
__global__ void take_rows_kernel(Unit* out, int64_t out_stride, const Unit* x, int64_t x_stride, const int32_t* rows,
                                 int64_t columns) {
    const int64_t row = blockIdx.x;
    const int64_t from = rows[row];
    if (from < 0) return;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) out[row * out_stride + c] = x[from * x_stride + c];
}

}  // namespace

Status CudaOps::take_rows(const Tensor& out, const Tensor& x, const int32_t* rows) {
    assert(out.dtype == x.dtype && out.columns == x.columns && !is_quantized(x.dtype));
    if (out.rows == 0 || out.columns == 0) return {};
    const auto go = [&]<class Unit>(Unit*) {
        return launch(queue_, "take_rows", dim3(static_cast<unsigned>(out.rows)), threads_for(out.columns),
                      take_rows_kernel<Unit>, reinterpret_cast<Unit*>(out.data), out.stride,
                      reinterpret_cast<const Unit*>(x.data), x.stride, rows, out.columns);
    };
    switch (traits(x.dtype).block_bytes) {
        case 4:
            return go(static_cast<uint32_t*>(nullptr));
        case 2:
            return go(static_cast<uint16_t*>(nullptr));
        default:
            return go(static_cast<uint8_t*>(nullptr));
    }
}

}  // namespace rondo::cuda
