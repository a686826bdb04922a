#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// What kernels are made of, each by itself: primitives_test.cpp holds the emulator and a GPU to the same results.
namespace rondo::primitives {

inline constexpr int lanes = 32;

enum class Shuffle { from_lane, exchange, down };

/// One warp. out[i] is what lane i gets of in[0, 32), by `argument`: a lane, or a distance. `half` shuffles within the
/// lower and the upper half of the warp by masks of their own.
cudaError_t shuffle(cudaStream_t stream, Shuffle kind, bool half, int argument, uint32_t* out, const uint32_t* in);
/// The same for 64 bits: exchange only.
cudaError_t exchange_doubles(cudaStream_t stream, int distance, double* out, const double* in);

/// One warp; by way of shared memory and __syncwarp out[i] = in[31 − i].
cudaError_t reverse_warp(cudaStream_t stream, uint32_t* out, const uint32_t* in);
/// Blocks of `threads`; by way of shared memory and __syncthreads each turns its part of `in` around, `turns` times.
cudaError_t reverse_blocks(cudaStream_t stream, int blocks, int threads, int turns, uint32_t* out, const uint32_t* in);

/// A grid of 2 × 3 × 2 blocks of 4 × 2 × 3 threads: out[thread of the grid, in order] = what its indices say it is.
inline constexpr int grid_threads = 2 * 3 * 2 * 4 * 2 * 3;
cudaError_t number_threads(cudaStream_t stream, uint32_t* out);

/// One thread an element of in [count].
enum class Function {
    to_bf16,      ///< __float2bfloat16_rn, the bits
    to_f16,       ///< __float2half_rn, the bits
    from_bf16,    ///< __bfloat162float of the low 16 bits
    from_f16,     ///< __half2float of the low 16 bits
    round,        ///< rintf
    square_root,  ///< sqrtf
    inverse,      ///< 1 / x
    fused,        ///< fmaf(x, x, −x·x rounded): what a product loses
    exponential,  ///< expf
    to_bits       ///< __float_as_int of __int_as_float
};
cudaError_t apply(cudaStream_t stream, Function function, uint32_t* out, const uint32_t* in, int count);
/// out[i] = sine, out[count + i] = cosine.
cudaError_t sine_and_cosine(cudaStream_t stream, double* out, const double* in, int count);

}  // namespace rondo::primitives
