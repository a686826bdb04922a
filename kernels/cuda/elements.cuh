#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.hpp"

/// How kernels read and write elements, and add up over a warp or a block.
namespace rondo::cuda {

__device__ inline float to_float(float value) {
    return value;
}
__device__ inline float to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
__device__ inline float to_float(__half value) {
    return __half2float(value);
}

/// Element i of an array of f32, bf16 or f16.
__device__ inline float load_float(const std::byte* data, DType type, int64_t i) {
    if (type == DType::f32) return reinterpret_cast<const float*>(data)[i];
    if (type == DType::bf16) return to_float(reinterpret_cast<const __nv_bfloat16*>(data)[i]);
    return to_float(reinterpret_cast<const __half*>(data)[i]);
}

/// Rounds to nearest even. An f16 saturates: one activation beyond 65504 would otherwise turn a whole product into
/// infinities.
__device__ inline void store_float(std::byte* data, DType type, int64_t i, float value) {
    if (type == DType::f32) {
        reinterpret_cast<float*>(data)[i] = value;
    } else if (type == DType::bf16) {
        reinterpret_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
    } else {
        const float largest = 65504.0F;
        const float kept = value > largest ? largest : value < -largest ? -largest : value;  // a NaN stays one
        reinterpret_cast<__half*>(data)[i] = __float2half_rn(kept);
    }
}

/// A tensor of f32, bf16 or f16 as kernels see it: floats, wherever the bytes are.
struct Rows2d {
    std::byte* data;
    int64_t stride;
    DType type;

    explicit Rows2d(const Tensor& tensor) : data(tensor.data), stride(tensor.stride), type(tensor.dtype) {}

    __device__ float load(int64_t row, int64_t column) const { return load_float(data, type, row * stride + column); }
    __device__ void store(int64_t row, int64_t column, float value) const {
        store_float(data, type, row * stride + column, value);
    }
};

inline bool is_activation(DType type) {
    return type == DType::f32 || type == DType::bf16;
}

struct Sum {
    static constexpr float identity = 0.0F;
    __device__ static float of(float a, float b) { return a + b; }
};

struct Largest {
    static constexpr float identity =
        -3.402823466e+38F;  // below every finite score; rows of -inf alone have no softmax
    __device__ static float of(float a, float b) { return fmaxf(a, b); }
};

/// Combines the 32 lanes; every lane gets the same bits, because each step combines the same two values in both lanes.
template <class Combine>
__device__ inline float over_warp(float value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value = Combine::of(value, __shfl_xor_sync(0xffffffffU, value, distance));
    }
    return value;
}

/// Combines a block of whole warps in an order fixed by its size; every thread gets the result. All threads must call
/// it.
template <class Combine>
__device__ inline float over_block(float value) {
    __shared__ float of_warp[32];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    value = over_warp<Combine>(value);
    __syncthreads();  // an earlier call's readers are done
    if (lane == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    return over_warp<Combine>(lane < warps ? of_warp[lane] : Combine::identity);
}

}  // namespace rondo::cuda
