#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// out [rows, columns], ids [rows], table [vocabulary, columns]. One block a row.
__global__ void embed_kernel(Rows2d out, const int32_t* ids, Rows2d table, int64_t columns) {
    const int64_t row = blockIdx.x;
    const int64_t id = ids[row];
    if (id < 0) return;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) out.store(row, c, table.load(id, c));
}

}  // namespace

Status CudaOps::embed(const Tensor& out, const int32_t* ids, const PackedMatrix& table) {
    const auto& w = static_cast<const CudaMatrix&>(table);
    assert(out.dtype == DType::f32 && out.columns == w.inputs());
    if (out.rows == 0) return {};
    const Tensor rows = Tensor::of(w.data(), w.dtype(), w.outputs(), w.inputs());
    return launch(queue_, "embed", dim3(static_cast<unsigned>(out.rows)), threads_for(out.columns), embed_kernel,
                  Rows2d(out), ids, Rows2d(rows), out.columns);
}

}  // namespace rondo::cuda
