#include "kernels/cuda/cuda_ops.hpp"

#include <string>

namespace rondo::cuda {

CudaOps::CudaOps(Queue queue, std::unique_ptr<Gemm> gemm)
    : queue_(queue),
      gemm_(std::move(gemm)),
      converted_(queue.ordinal),
      product_(queue.ordinal),
      query_sums_(queue.ordinal) {}

Result<std::unique_ptr<CudaOps>> CudaOps::create(int ordinal, cudaStream_t compute) {
    RONDO_ASSIGN(std::unique_ptr<Gemm> gemm, Gemm::create(ordinal));
    return std::unique_ptr<CudaOps>(new CudaOps({ordinal, compute}, std::move(gemm)));
}

namespace {

Status not_here(const char* op) {
    return make_error(ErrorCode::unsupported,
                      std::string(op) + " does not run on a GPU; the attention method must be dense");
}

}  // namespace

Status CudaOps::attend_selected(const AttendArgs&, const AttendedKeys*, const std::byte*) {
    return not_here("attention to chosen keys");
}

Status CudaOps::attend_lines(const AttendArgs&, const LineTables&) {
    return not_here("attention to chosen lines");
}

Status CudaOps::score_rows(const ScoreArgs&, const ConsumeRows&) {
    return not_here("scoring rows");
}

Status CudaOps::score_blocks(const Tensor&, const ScoreArgs&) {
    return not_here("scoring blocks");
}

Status CudaOps::score_selected(const Tensor&, const ScoreArgs&, const AttendedKeys&, const std::byte*) {
    return not_here("scoring chosen keys");
}

Status CudaOps::move_kv(const KvAtom&, std::byte*, const int32_t*, const int32_t*, int64_t) {
    return not_here("gathering keys");
}

}  // namespace rondo::cuda
