#pragma once

#include <cstddef>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo::cuda {

/// Memory of one GPU, 256-byte aligned. The Buffer may outlive its device and die on any thread. Freeing waits for all
/// work on the GPU. So a Buffer that a kernel still reads may be dropped, but not in a decode loop.
Result<Buffer> allocate_on_gpu(int ordinal, size_t bytes);

/// Host memory that the GPU copies from and to by itself. Likewise for its end.
Result<Buffer> allocate_pinned(int ordinal, size_t bytes);

/// Memory that an op needs between two of its kernels. It grows and never shrinks, so a warmed-up loop allocates
/// nothing. Used on the compute stream alone, whose order keeps one op's use behind the last one's.
class Scratch {
public:
    explicit Scratch(int ordinal) : ordinal_(ordinal) {}
    /// At least `bytes`. Memory that an earlier call returned may be gone; its contents are lost.
    Result<void*> reserve(size_t bytes);

private:
    int ordinal_;
    Buffer buffer_;
};

}  // namespace rondo::cuda
