#include "kernels/cuda/kv_atom.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// k, v [count, heads·d] f32; slots [count]. One block a (row, KV head), its threads over d channels.
template <DType type>
__global__ void read_kv_kernel(Rows2d k, Rows2d v, PagedKv kv, const int32_t* slots) {
    const int64_t row = blockIdx.x;
    const int head = static_cast<int>(blockIdx.y);
    const int slot = slots[row];
    if (slot < 0) return;
    const int t = slot % kv_block_tokens;
    const int64_t first = int64_t{head} * kv.head_dim;
    const Atom<type> atom(kv, slot / kv_block_tokens, head);
    for (int c = static_cast<int>(threadIdx.x); c < kv.head_dim; c += static_cast<int>(blockDim.x)) {
        k.store(row, first + c, atom.key(t, c));
        v.store(row, first + c, atom.value(t, c));
    }
}

}  // namespace

Status CudaOps::read_kv(const Tensor& k, const Tensor& v, const KvLayer& kv, const int32_t* slots) {
    assert(k.rows == v.rows && k.columns == v.columns && k.columns == int64_t{kv.heads} * kv.atom.head_dim);
    assert(k.dtype == DType::f32 && v.dtype == DType::f32);
    if (k.rows == 0) return {};
    const dim3 grid(static_cast<unsigned>(k.rows), static_cast<unsigned>(kv.heads));
    return for_kv_type(kv.atom.dtype, [&](auto type) {
        return launch(queue_, "read_kv", grid, threads_for(kv.atom.head_dim), read_kv_kernel<type>, Rows2d(k),
                      Rows2d(v), PagedKv(kv), slots);
    });
}

}  // namespace rondo::cuda
