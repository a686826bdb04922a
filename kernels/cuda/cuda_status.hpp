#pragma once

#include <cuda_runtime_api.h>

#include "config/result.hpp"

namespace rondo::cuda {

/// One line: which GPU, what was being done, what CUDA says.
Error cuda_error(cudaError_t error, int ordinal, const char* doing);

/// Success, or `cuda_error`. A kernel's own failure shows late, at the next call that looks; from then on every call on
/// that GPU fails the same way until the process ends.
inline Status cuda_status(cudaError_t error, int ordinal, const char* doing) {
    if (error == cudaSuccess) return {};
    return cuda_error(error, ordinal, doing);
}

}  // namespace rondo::cuda
