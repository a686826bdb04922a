#include "kernels/cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/cuda_status.hpp"

namespace rondo::cuda {

namespace {

constexpr size_t page_bytes = 4096;

}  // namespace

Result<Buffer> allocate_on_gpu(int ordinal, size_t bytes) {
    const MemorySpace space{DeviceKind::cuda, ordinal};
    if (bytes == 0) return Buffer(nullptr, 0, space, {});
    RONDO_TRY(cuda_status(cudaSetDevice(ordinal), ordinal, "selecting the GPU"));
    void* data = nullptr;
    if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
        Error failed = cuda_error(error, ordinal, "allocating");
        size_t free = 0;
        size_t total = 0;
        if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
            failed.message += " (" + std::to_string(bytes >> 20) + " MiB asked for, " + std::to_string(free >> 20) +
                              " of " + std::to_string(total >> 20) + " MiB free)";
        }
        return failed;
    }
    // The thread may never have met this GPU, and must not begin work with another one. It fails only when the GPU or
    // the process is already gone, where nothing is left to do.
    return Buffer(data, bytes, space, [ordinal](void* freed, size_t) {
        (void)cudaSetDevice(ordinal);
        (void)cudaFree(freed);
    });
}

Result<Buffer> allocate_pinned(int ordinal, size_t bytes) {
    const MemorySpace space{DeviceKind::cpu, 0};
    if (bytes == 0) return Buffer(nullptr, 0, space, {});
    RONDO_TRY(cuda_status(cudaSetDevice(ordinal), ordinal, "selecting the GPU"));
    void* data = nullptr;
    const auto allocate = [&](size_t all) {
        return cuda_status(cudaHostAlloc(&data, all, cudaHostAllocPortable), ordinal, "allocating pinned host memory");
    };
    const auto is_at_a_page = [&] { return reinterpret_cast<uintptr_t>(data) % page_bytes == 0; };
    RONDO_TRY(allocate(bytes));
    if (!is_at_a_page()) {  // which nobody promises of a small piece
        (void)cudaFreeHost(data);
        RONDO_TRY(allocate(bytes + page_bytes));
    }
    const size_t before = is_at_a_page() ? 0 : page_bytes - reinterpret_cast<uintptr_t>(data) % page_bytes;
    return Buffer(static_cast<std::byte*>(data) + before, bytes, space, [ordinal, data](void*, size_t) {
        (void)cudaSetDevice(ordinal);
        (void)cudaFreeHost(data);
    });
}

Result<void*> Scratch::reserve(size_t bytes) {
    if (bytes > buffer_.bytes()) {
        buffer_ = Buffer();  // first, so that old and new need not both fit
        RONDO_ASSIGN(buffer_, allocate_on_gpu(ordinal_, bytes));
    }
    return buffer_.data();
}

}  // namespace rondo::cuda
