#include "kernels/cuda/cuda_ops.hpp"

namespace rondo::cuda {

CudaOps::CudaOps(Queue queue, std::unique_ptr<Gemm> gemm)
    : queue_(queue), gemm_(std::move(gemm)), converted_(queue.ordinal), product_(queue.ordinal) {}

Result<std::unique_ptr<CudaOps>> CudaOps::create(int ordinal, cudaStream_t compute) {
    RONDO_ASSIGN(std::unique_ptr<Gemm> gemm, Gemm::create(ordinal));
    return std::unique_ptr<CudaOps>(new CudaOps({ordinal, compute}, std::move(gemm)));
}

}  // namespace rondo::cuda
