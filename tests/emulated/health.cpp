#include "tests/emulated/health.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

namespace rondo::emulated {
namespace {

struct Health {
    std::mutex mutex;
    std::string fault;  // guarded by mutex; kept when it is taken, because error texts point to it
    std::atomic<bool> broken = false;
};

Health& health() {
    static Health one;
    return one;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

void break_down(const std::string& fault) {
    const std::lock_guard lock(health().mutex);
    if (health().broken) return;
    std::fprintf(stderr, "emulated GPU: %s\n", fault.c_str());
    health().fault = fault;
    health().broken = true;
}

bool is_broken() {
    return health().broken;
}

std::optional<std::string> take_fault() {
    const std::lock_guard lock(health().mutex);
    if (!health().broken) return std::nullopt;
    health().broken = false;
    return health().fault;
}

cudaError_t answer(cudaError_t error) {
    if (is_broken()) error = cudaErrorLaunchFailure;
    if (error != cudaSuccess) last_error = error;
    return error;
}

}  // namespace rondo::emulated

extern "C" {

cudaError_t cudaGetLastError() {
    return std::exchange(rondo::emulated::last_error, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorNotSupported:
            return "not emulated";
        case cudaErrorLaunchFailure:
            return rondo::emulated::health().fault.c_str();
        default:
            return "an error that the emulated GPU never gives";
    }
}

}  // extern "C"
