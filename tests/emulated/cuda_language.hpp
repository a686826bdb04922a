#pragma once

/// CUDA's language for a .cu file that g++ compiles as C++; CMake includes it before the file's first line. What is
/// missing here does not compile, so a kernel never runs on something that only looks like CUDA.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <tuple>
#include <utility>

#include "tests/emulated/block.hpp"
#include "tests/emulated/launch.hpp"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
// One block runs at a time, so a static variable can be its shared memory. shared_memory.ld gathers all of them, and
// they are poisoned before each block. (`extern __shared__`, whose size a launch gives, does not compile.)
#define __shared__ static

// The toolkit's own is a template that no .cu file calls after this.
#define cudaLaunchKernelEx rondo::emulated::launch

namespace rondo::emulated {

template <class T>
T shuffle(unsigned mask, T value, unsigned from, int width, const std::source_location& at) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    if (width != 32) fail("a shuffle of a width other than 32, which is not emulated");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, from, at);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace rondo::emulated

inline void __syncthreads(std::source_location at = std::source_location::current()) {
    rondo::emulated::block_barrier(at);
}

inline void __syncwarp(unsigned mask = 0xffffffffU, std::source_location at = std::source_location::current()) {
    rondo::emulated::warp_barrier(mask, at);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32,
              std::source_location at = std::source_location::current()) {
    return rondo::emulated::shuffle(mask, value, static_cast<unsigned>(from) % 32, width, at);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  std::source_location at = std::source_location::current()) {
    return rondo::emulated::shuffle(mask, value, (rondo::emulated::lane() ^ static_cast<unsigned>(distance)) % 32,
                                    width, at);
}

/// A lane whose partner would be beyond the warp keeps its own value.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   std::source_location at = std::source_location::current()) {
    const unsigned from = rondo::emulated::lane() + distance;
    return rondo::emulated::shuffle(mask, value, from < 32 ? from : rondo::emulated::lane(), width, at);
}

inline int __float_as_int(float value) {
    int bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __int_as_float(int bits) {
    float value = 0.0F;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
