// As much of the CUDA runtime as kernels/cuda calls: the device and its memory, launches and copies. Streams and events
// are in runtime_streams.cpp. What is missing does not link.

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/emulated/grid.hpp"
#include "tests/emulated/health.hpp"
#include "tests/emulated/launch.hpp"
#include "tests/emulated/memory.hpp"
#include "tests/emulated/pinned.hpp"
#include "tests/emulated/stream.hpp"

namespace rondo::emulated {

void wait_for_all_streams();

namespace {

constexpr unsigned threads_max = 1024;
constexpr unsigned grid_x_max = 2147483647;
constexpr unsigned grid_yz_max = 65535;

bool is_launchable(const dim3& grid, const dim3& block) {
    return grid.x >= 1 && grid.x <= grid_x_max && grid.y >= 1 && grid.y <= grid_yz_max && grid.z >= 1 &&
           grid.z <= grid_yz_max && block.x >= 1 && block.y >= 1 && block.z >= 1 &&
           uint64_t{block.x} * block.y * block.z <= threads_max;
}

/// "Rows2d, Rows2d, int" of "… [with Expected = {Rows2d, Rows2d, int}; …]".
std::string parameters_of(std::string_view called) {
    const std::string_view before = "Expected = {";
    const size_t begin = called.find(before);
    if (begin == std::string_view::npos) return std::string(called);
    const std::string_view from = called.substr(begin + before.size());
    return std::string(from.substr(0, from.find('}')));
}

void run_kernel(const Shape& shape, const std::string& parameters, const std::function<void()>& kernel) {
    auto fault = run_grid(shape, kernel);
    if (!fault) fault = broken_guard();
    if (fault) break_down("the kernel of (" + parameters + "): " + *fault);
}

bool is_within(const void* pointer, size_t bytes) {
    const auto left = bytes_left_at(pointer);
    return !left || bytes <= *left;
}

}  // namespace

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& launch, std::string_view called, std::function<void()> kernel) {
    if (!is_launchable(launch.gridDim, launch.blockDim)) return answer(cudaErrorInvalidConfiguration);
    if (launch.dynamicSmemBytes != 0 || launch.numAttrs != 0) return answer(cudaErrorNotSupported);
    return enqueue_work(launch.stream,
                        [shape = Shape{launch.gridDim, launch.blockDim}, called, kernel = std::move(kernel)] {
                            run_kernel(shape, parameters_of(called), kernel);
                        });
}

cudaError_t enqueue_work(cudaStream_t stream, std::function<void()> work) {
    const cudaError_t error = answer(cudaSuccess);  // of now: a fault of this work shows in a later call
    stream->add([work = std::move(work)] {
        if (!is_broken()) work();
    });
    return error;
}

}  // namespace rondo::emulated

using namespace rondo::emulated;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = {};
    std::strcpy(properties->name, "emulated");
    properties->major = 9;
    return answer(cudaSuccess);
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
    *data = allocate(bytes);
    return answer(*data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* data) {
    wait_for_all_streams();
    return answer(free_memory(data) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    *free = memory_bytes_free();
    *total = memory_bytes();
    return answer(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
    *data = allocate_pinned(bytes);
    return answer(*data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* data) {
    wait_for_all_streams();
    return answer(free_pinned(data) ? cudaSuccess : cudaErrorInvalidValue);
}

/// Of host memory that is not pinned the driver has read all when the call returns, or written it.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    if (bytes == 0) return answer(cudaSuccess);
    if (!is_within(to, bytes) || !is_within(from, bytes)) return answer(cudaErrorInvalidValue);
    if (bytes_left_at(from) || is_pinned(from, bytes)) {
        const cudaError_t error = enqueue_work(stream, [=] { std::memcpy(to, from, bytes); });
        if (!bytes_left_at(to) && !is_pinned(to, bytes)) stream->wait();
        return answer(error);
    }
    const auto* const begin = static_cast<const std::byte*>(from);
    return enqueue_work(stream, [to, staged = std::vector<std::byte>(begin, begin + bytes)] {
        std::memcpy(to, staged.data(), staged.size());
    });
}

}  // extern "C"
