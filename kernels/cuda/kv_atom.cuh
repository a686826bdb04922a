#pragma once

#include <string>
#include <type_traits>

#include "config/result.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/kv_layout.hpp"

namespace rondo::cuda {

/// A KvLayer with the sizes worked out on the host, for kernels.
struct PagedKv {
    std::byte* base;
    size_t block_stride;
    size_t head_stride;  // bytes of an atom
    size_t half_bytes;   // K or V of an atom
    int heads;
    int head_dim;

    explicit PagedKv(const KvLayer& kv)
        : base(kv.base),
          block_stride(kv.block_stride),
          head_stride(kv.atom.bytes()),
          half_bytes(kv.atom.half_bytes()),
          heads(kv.heads),
          head_dim(kv.atom.head_dim) {}
};

/// The atom of one block and head in the layouts of kv_layout.hpp: token t of 16, channel c of head_dim.
template <DType type>
struct Atom {
    std::byte* keys;
    std::byte* values;
    float* key_scales;    // [16], i8 only
    float* value_scales;  // [16], i8 only
    int d;

    __device__ Atom(const PagedKv& kv, int64_t block, int head)
        : keys(kv.base + static_cast<size_t>(block) * kv.block_stride + static_cast<size_t>(head) * kv.head_stride),
          values(keys + kv.half_bytes),
          key_scales(reinterpret_cast<float*>(values + kv.half_bytes)),
          value_scales(key_scales + kv_block_tokens),
          d(kv.head_dim) {}

    __device__ int key_index(int t, int c) const { return t * d + c; }
    __device__ int value_index(int t, int c) const {
        return type == DType::bf16 ? (t / 2) * 2 * d + 2 * c + t % 2 : t * d + c;
    }

    __device__ float key(int t, int c) const { return load(keys, key_index(t, c), key_scales, t); }
    __device__ float value(int t, int c) const { return load(values, value_index(t, c), value_scales, t); }

private:
    __device__ static float load(const std::byte* half, int i, const float* scales, int t) {
        if constexpr (type == DType::i8) {
            return static_cast<float>(reinterpret_cast<const int8_t*>(half)[i]) * scales[t];
        } else {
            return load_float(half, type, i);
        }
    }
};

/// Calls `with(std::integral_constant<DType, …>)` for the layer's element type, or says that there is no such KV.
template <class With>
Status for_kv_type(DType type, With&& with) {
    switch (type) {
        case DType::f32:
            return with(std::integral_constant<DType, DType::f32>());
        case DType::bf16:
            return with(std::integral_constant<DType, DType::bf16>());
        case DType::i8:
            return with(std::integral_constant<DType, DType::i8>());
        default:
            return make_error(ErrorCode::unsupported,
                              "KV of type " + std::string(traits(type).name) + ", must be f32, bf16 or i8");
    }
}

}  // namespace rondo::cuda
