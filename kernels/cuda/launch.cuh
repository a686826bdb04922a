#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/cuda_ops.hpp"
#include "kernels/cuda/cuda_status.hpp"

namespace rondo::cuda {

/// Threads for a block that walks one row: whole warps, no more than the row can use. Their number, and with it the
/// order of sums, depends on the row's length alone.
inline unsigned threads_for(int64_t columns) {
    return static_cast<unsigned>(columns >= 256 ? 256 : (columns + 31) / 32 * 32);
}

/// Enqueues a kernel. No part of the grid may be 0: ops leave early when there is nothing to do.
template <class... Expected, class... Given>
Status launch(const Queue& queue, const char* op, dim3 grid, unsigned threads, void (*kernel)(Expected...),
              Given&&... arguments) {
    cudaError_t error = cudaSetDevice(queue.ordinal);
    if (error == cudaSuccess) {
        cudaLaunchConfig_t shape{};
        shape.gridDim = grid;
        shape.blockDim = dim3(threads);
        shape.stream = queue.stream;
        error = cudaLaunchKernelEx(&shape, kernel, std::forward<Given>(arguments)...);
    }
    return cuda_status(error, queue.ordinal, op);
}

}  // namespace rondo::cuda
