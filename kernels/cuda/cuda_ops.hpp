#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <utility>

#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/ops.hpp"

namespace rondo::cuda {

/// Where kernels go.
struct Queue {
    int ordinal = 0;
    cudaStream_t stream = nullptr;
};

/// A weight on the GPU: [outputs, inputs] row-major, f32, bf16 or f16, rows without gaps.
class CudaMatrix final : public PackedMatrix {
public:
    CudaMatrix(Buffer storage, DType dtype, int64_t outputs, int64_t inputs)
        : storage_(std::move(storage)), dtype_(dtype), outputs_(outputs), inputs_(inputs) {}

    int64_t outputs() const override { return outputs_; }
    int64_t inputs() const override { return inputs_; }
    size_t bytes() const override { return storage_.bytes(); }
    DType dtype() const { return dtype_; }
    std::byte* data() const { return storage_.as<std::byte>(); }

private:
    Buffer storage_;
    DType dtype_;
    int64_t outputs_;
    int64_t inputs_;
};

/// The ops of one GPU, each the simplest correct version: kernels/cuda/NAME.cu. No op waits for the GPU but `pack`.
/// Belongs to its CudaDevice and is used by that device's issuing thread.
class CudaOps final : public Ops {
public:
    static Result<std::unique_ptr<CudaOps>> create(int ordinal, cudaStream_t compute);

    Result<std::unique_ptr<PackedMatrix>> pack(std::span<const HostMatrix> parts) override;
    Status matmul(const MatmulArgs& args) override;
    Status reserve(const MatmulArgs& args) override;
    Status embed(const Tensor& out, const int32_t* ids, const PackedMatrix& table) override;
    Status rms_norm(const Tensor& out, const Tensor& x, const float* weight, float eps) override;
    Status head_norm(const Tensor& x, const float* weight, int heads, float eps) override;
    Status rope_angles(const Tensor& out, const int32_t* positions, const double* inverse_frequency) override;
    Status rope(const Tensor& x, const Tensor& angles, int heads) override;
    Status append_kv(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots) override;
    Status read_kv(const Tensor& k, const Tensor& v, const KvLayer& kv, const int32_t* slots) override;
    Status attend(const AttendArgs& args) override;
    Status attend_selected(const AttendArgs& args, const AttendedKeys* selected, const std::byte* atoms) override;
    Status attend_lines(const AttendArgs& args, const LineTables& lines) override;
    Status score_keys(const Tensor& out, const ScoreArgs& args) override;
    Status score_rows(const ScoreArgs& args, const ConsumeRows& consume) override;
    Status score_blocks(const Tensor& out, const ScoreArgs& args) override;
    Status score_selected(const Tensor& out, const ScoreArgs& args, const AttendedKeys& selected,
                          const std::byte* atoms) override;
    Status move_kv(const KvAtom& atom, std::byte* atoms, const int32_t* from, const int32_t* to,
                   int64_t count) override;
    Status silu_mul(const Tensor& out, const Tensor& x) override;
    Status softmax(const Tensor& out, const Tensor& x) override;
    Status take_rows(const Tensor& out, const Tensor& x, const int32_t* rows) override;

private:
    CudaOps(Queue queue, std::unique_ptr<Gemm> gemm);
    Status matmul_rows(const MatmulArgs& args, const CudaMatrix& w);
    Result<bool> matmul_bulk(const MatmulArgs& args, const CudaMatrix& w);

    Queue queue_;
    std::unique_ptr<Gemm> gemm_;
    Scratch converted_;   // x in the weight's type, [M, K]
    Scratch product_;     // f32 before bias and rounding, [M, N]
    Scratch query_sums_;  // of score_keys, [rows, heads, 2] f32
};

}  // namespace rondo::cuda
