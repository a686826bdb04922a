#include "kernels/cuda/cuda_status.hpp"

#include <string>

namespace rondo::cuda {

Error cuda_error(cudaError_t error, int ordinal, const char* doing) {
    // An error that spoils only the call that met it stays in the thread until it is read; the next launch must not
    // find it.
    (void)cudaGetLastError();
    const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
    return make_error(code, "cuda:" + std::to_string(ordinal) + ": " + doing + " failed: " + cudaGetErrorString(error));
}

}  // namespace rondo::cuda
