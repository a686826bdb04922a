#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/emulated/primitives.hpp"

namespace rondo::primitives {
namespace {

constexpr int threads_max = 256;

__global__ void shuffle_kernel(Shuffle kind, bool half, int argument, uint32_t* out, const uint32_t* in) {
    const unsigned lane = threadIdx.x;
    const unsigned mask = !half ? 0xffffffffU : lane < 16 ? 0x0000ffffU : 0xffff0000U;
    const uint32_t mine = in[lane];
    if (kind == Shuffle::from_lane) {
        out[lane] = __shfl_sync(mask, mine, half ? argument % 16 + static_cast<int>(lane / 16) * 16 : argument);
    } else if (kind == Shuffle::exchange) {
        out[lane] = __shfl_xor_sync(mask, mine, argument);
    } else {
        out[lane] = __shfl_down_sync(mask, mine, static_cast<unsigned>(argument));
    }
}

__global__ void exchange_doubles_kernel(int distance, double* out, const double* in) {
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, in[threadIdx.x], distance);
}

__global__ void reverse_warp_kernel(uint32_t* out, const uint32_t* in) {
    __shared__ uint32_t values[lanes];
    values[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = values[lanes - 1 - threadIdx.x];
}

__global__ void reverse_blocks_kernel(int turns, uint32_t* out, const uint32_t* in) {
    __shared__ uint32_t values[threads_max];
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t mine = in[at];
    for (int turn = 0; turn < turns; ++turn) {
        values[threadIdx.x] = mine;
        __syncthreads();
        mine = values[blockDim.x - 1 - threadIdx.x];
        __syncthreads();
    }
    out[at] = mine;
}

__global__ void number_threads_kernel(uint32_t* out) {
    const unsigned of_block = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = block * blockDim.x * blockDim.y * blockDim.z + of_block;
    // In a warp lane follows lane, so each finds its own number where the one before it looks.
    const unsigned before = __shfl_sync(0xffffffU, of_block, of_block == 0 ? 0 : static_cast<int>(of_block) - 1);
    out[thread] = before + (of_block == 0 ? 0 : 1) + block * 1000;
}

__device__ uint32_t applied(Function function, uint32_t bits) {
    const float x = __int_as_float(static_cast<int>(bits));
    const auto low = static_cast<unsigned short>(bits);
    const auto of = [](float value) { return static_cast<uint32_t>(__float_as_int(value)); };
    switch (function) {
        case Function::to_bf16:
            return __bfloat16_as_ushort(__float2bfloat16_rn(x));
        case Function::to_f16:
            return __half_as_ushort(__float2half_rn(x));
        case Function::from_bf16:
            return of(__bfloat162float(__ushort_as_bfloat16(low)));
        case Function::from_f16:
            return of(__half2float(__ushort_as_half(low)));
        case Function::round:
            return of(rintf(x));
        case Function::square_root:
            return of(sqrtf(x));
        case Function::inverse:
            return of(1.0F / x);
        case Function::fused:
            return of(fmaf(x, x, -(x * x)));
        case Function::exponential:
            return of(expf(x));
        case Function::to_bits:
            return of(x);
    }
    return 0;
}

__global__ void apply_kernel(Function function, uint32_t* out, const uint32_t* in, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] = applied(function, in[i]);
}

__global__ void sine_and_cosine_kernel(double* out, const double* in, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) sincos(in[i], &out[i], &out[count + i]);
}

template <class... Expected, class... Given>
cudaError_t go(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Expected...), Given... given) {
    cudaLaunchConfig_t shape{};
    shape.gridDim = grid;
    shape.blockDim = block;
    shape.stream = stream;
    return cudaLaunchKernelEx(&shape, kernel, given...);
}

dim3 blocks_for(int count) {
    return dim3(static_cast<unsigned>((count + threads_max - 1) / threads_max));
}

}  // namespace

cudaError_t shuffle(cudaStream_t stream, Shuffle kind, bool half, int argument, uint32_t* out, const uint32_t* in) {
    return go(stream, dim3(1), dim3(lanes), shuffle_kernel, kind, half, argument, out, in);
}

cudaError_t exchange_doubles(cudaStream_t stream, int distance, double* out, const double* in) {
    return go(stream, dim3(1), dim3(lanes), exchange_doubles_kernel, distance, out, in);
}

cudaError_t reverse_warp(cudaStream_t stream, uint32_t* out, const uint32_t* in) {
    return go(stream, dim3(1), dim3(lanes), reverse_warp_kernel, out, in);
}

cudaError_t reverse_blocks(cudaStream_t stream, int blocks, int threads, int turns, uint32_t* out, const uint32_t* in) {
    return go(stream, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), reverse_blocks_kernel,
              turns, out, in);
}

cudaError_t number_threads(cudaStream_t stream, uint32_t* out) {
    return go(stream, dim3(2, 3, 2), dim3(4, 2, 3), number_threads_kernel, out);
}

cudaError_t apply(cudaStream_t stream, Function function, uint32_t* out, const uint32_t* in, int count) {
    return go(stream, blocks_for(count), dim3(threads_max), apply_kernel, function, out, in, count);
}

cudaError_t sine_and_cosine(cudaStream_t stream, double* out, const double* in, int count) {
    return go(stream, blocks_for(count), dim3(threads_max), sine_and_cosine_kernel, out, in, count);
}

}  // namespace rondo::primitives
