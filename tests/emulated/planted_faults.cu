#include "tests/emulated/planted_faults.hpp"

namespace rondo::emulated {
namespace {

__device__ float sum_of_warp(Plant plant, float value) {
    if (plant == Plant::skipped_shuffle && threadIdx.x == 5) return value;
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffU, value, distance);
    return value;
}

__device__ void barrier(Plant plant) {
    if (plant == Plant::divergent_barrier && threadIdx.x >= 64) {
        __syncthreads();
    } else if (plant != Plant::missing_barrier) {
        __syncthreads();
    }
}

/// A template, as most kernels are: the compiler treats its shared memory in another way than that of a function.
template <int warps>
__global__ void row_sums_kernel(Plant plant, float* out, const float* in) {
    __shared__ float of_warp[warps];
    const int thread = static_cast<int>(threadIdx.x);
    const int row = static_cast<int>(blockIdx.x) + (plant == Plant::wrong_row ? 1 : 0);
    const bool is_last = blockIdx.x + 1 == gridDim.x && thread == sum_threads - 1;
    const int beyond = plant == Plant::global_read_overrun && is_last ? sum_threads + 1 : 0;  // a row follows the last
    float sum = 0.0F;
    for (int times = 1; times <= 2; ++times) {
        const float mine = sum_of_warp(plant, static_cast<float>(times) * in[row * sum_threads + thread + beyond]);
        const int slot = thread / 32 + (plant == Plant::shared_overrun ? 1 : 0);
        if (thread % 32 == 0 && (plant != Plant::unwritten_shared || slot != 2)) of_warp[slot] = mine;
        if (plant == Plant::skipped_barrier && thread >= 64) return;
        barrier(plant);
        for (int w = 0; w < warps; ++w) sum += of_warp[w];
        if (plant != Plant::missing_reuse_barrier) __syncthreads();
    }
    if (thread == 0) out[blockIdx.x + (plant == Plant::global_overrun ? 1 : 0)] = sum;
}

__global__ void swap_kernel(Plant plant, float* out, const float* in) {
    __shared__ float values[32];
    if (plant != Plant::unwritten_shared || threadIdx.x != 3) values[threadIdx.x] = in[threadIdx.x];
    if (plant != Plant::missing_warp_barrier) __syncwarp();
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}

__global__ void running_sums_kernel(Plant plant, float* out, const float* in) {
    const int block = static_cast<int>(blockIdx.x);
    if (plant == Plant::blocks_in_order) {
        out[block] = (block > 0 ? out[block - 1] : 0.0F) + in[block];
        return;
    }
    float sum = 0.0F;
    for (int i = 0; i <= block; ++i) sum += in[i];
    out[block] = sum;
}

template <class... Expected, class... Given>
cudaError_t go(cudaStream_t stream, int blocks, int threads, void (*kernel)(Expected...), Given... given) {
    cudaLaunchConfig_t shape{};
    shape.gridDim = dim3(static_cast<unsigned>(blocks));
    shape.blockDim = dim3(static_cast<unsigned>(threads));
    shape.stream = stream;
    return cudaLaunchKernelEx(&shape, kernel, given...);
}

}  // namespace

cudaError_t launch_row_sums(Plant plant, cudaStream_t stream, float* out, const float* in, int rows) {
    return go(stream, rows, sum_threads, row_sums_kernel<sum_threads / 32>, plant, out, in);
}

cudaError_t launch_swap(Plant plant, cudaStream_t stream, float* out, const float* in) {
    return go(stream, 1, 32, swap_kernel, plant, out, in);
}

cudaError_t launch_running_sums(Plant plant, cudaStream_t stream, float* out, const float* in, int blocks) {
    return go(stream, blocks, 1, running_sums_kernel, plant, out, in);
}

}  // namespace rondo::emulated
