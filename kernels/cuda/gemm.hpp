#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "config/result.hpp"
#include "kernels/dtype.hpp"

namespace rondo::cuda {

/// out[m, n] = Σk x[m, k] · w[n, k], plus what out held when `accumulate`. All row-major in GPU memory.
struct Product {
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    DType type = DType::f32;      ///< of x and w: f32, bf16 or f16
    DType out_type = DType::f32;  ///< f32, or the same as `type`
    bool accumulate = false;
    const void* x = nullptr;
    int64_t x_stride = 0;
    const void* w = nullptr;  ///< rows without gaps
    void* out = nullptr;
    int64_t out_stride = 0;
};

/// Matrix products through cuBLASLt, summed in f32 (never TF32). Choices of algorithm are kept by shape, so from a
/// shape's second product on nothing is allocated. One per device, used by its issuing thread.
class Gemm {
public:
    /// Whether cuBLASLt is there, and where it must be.
    static Status available();
    /// Loads cuBLASLt and takes its workspace on the GPU. Without the library it has no algorithm for anything.
    static Result<std::unique_ptr<Gemm>> create(int ordinal);
    virtual ~Gemm() = default;
    /// Enqueues the product; false when cuBLASLt has no algorithm for it, and then nothing is enqueued.
    virtual Result<bool> multiply(const Product& product, cudaStream_t stream) = 0;
};

}  // namespace rondo::cuda
