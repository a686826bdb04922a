#include <cfloat>

#include "kernels/cuda/kv_atom.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

/// The larger of two magnitudes. Their bits, read as integers, have the same order, with every NaN above every number.
struct LargestMagnitude {
    static constexpr float identity = 0.0F;
    __device__ static float of(float a, float b) { return __float_as_int(a) > __float_as_int(b) ? a : b; }
};

/// Symmetric: 127 stands for the row's largest magnitude. A row too small for a normal scale is all zeros.
__device__ float scale_for(float largest) {
    const float scale = largest / 127.0F;
    return scale < FLT_MIN ? 0.0F : scale;
}

/// Code 0 under a scale of NaN or infinity reads back as NaN: a row that was no number stays none.
__device__ int8_t quantize(float value, float scale) {
    if (scale == 0.0F || !(scale <= FLT_MAX)) return 0;
    return static_cast<int8_t>(rintf(value / scale));
}

/// k, v [rows, heads·d]; slots [rows]. One block a (row, KV head), its threads over d channels.
template <DType type>
__global__ void append_kv_kernel(PagedKv kv, Rows2d k, Rows2d v, const int32_t* slots) {
    const int64_t row = blockIdx.x;
    const int head = static_cast<int>(blockIdx.y);
    const int slot = slots[row];
    if (slot < 0) return;  // the whole block alike, so nobody waits at a barrier
    const int t = slot % kv_block_tokens;
    const int64_t first = int64_t{head} * kv.head_dim;
    const Atom<type> atom(kv, slot / kv_block_tokens, head);
    if constexpr (type == DType::i8) {
        float key_largest = 0.0F;
        float value_largest = 0.0F;
        for (int c = static_cast<int>(threadIdx.x); c < kv.head_dim; c += static_cast<int>(blockDim.x)) {
            key_largest = LargestMagnitude::of(key_largest, fabsf(k.load(row, first + c)));
            value_largest = LargestMagnitude::of(value_largest, fabsf(v.load(row, first + c)));
        }
        const float key_scale = scale_for(over_block<LargestMagnitude>(key_largest));
        const float value_scale = scale_for(over_block<LargestMagnitude>(value_largest));
        if (threadIdx.x == 0) {
            atom.key_scales[t] = key_scale;
            atom.value_scales[t] = value_scale;
        }
        for (int c = static_cast<int>(threadIdx.x); c < kv.head_dim; c += static_cast<int>(blockDim.x)) {
            reinterpret_cast<int8_t*>(atom.keys)[atom.key_index(t, c)] = quantize(k.load(row, first + c), key_scale);
            reinterpret_cast<int8_t*>(atom.values)[atom.value_index(t, c)] =
                quantize(v.load(row, first + c), value_scale);
        }
    } else {
        for (int c = static_cast<int>(threadIdx.x); c < kv.head_dim; c += static_cast<int>(blockDim.x)) {
            store_float(atom.keys, type, atom.key_index(t, c), k.load(row, first + c));
            store_float(atom.values, type, atom.value_index(t, c), v.load(row, first + c));
        }
    }
}

}  // namespace

Status CudaOps::append_kv(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots) {
    assert(k.rows == v.rows && k.columns == v.columns && k.columns == int64_t{kv.heads} * kv.atom.head_dim);
    assert(is_activation(k.dtype) && is_activation(v.dtype));
    if (k.rows == 0) return {};
    const dim3 grid(static_cast<unsigned>(k.rows), static_cast<unsigned>(kv.heads));
    return for_kv_type(kv.atom.dtype, [&](auto type) {
        return launch(queue_, "append_kv", grid, threads_for(kv.atom.head_dim), append_kv_kernel<type>, PagedKv(kv),
                      Rows2d(k), Rows2d(v), slots);
    });
}

}  // namespace rondo::cuda
