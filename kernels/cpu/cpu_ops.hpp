#pragma once

#include "kernels/cpu/attend.hpp"
#include "kernels/cpu/attend_lines.hpp"
#include "kernels/cpu/matmul.hpp"
#include "kernels/cpu/score.hpp"
#include "kernels/cpu/score_blocks.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops on a CPU: each call is shared out over the device's pool and done when it returns.
class CpuOps : public Ops {
public:
    CpuOps(Device& device, int threads, Bf16Way bf16)
        : device_(device),
          pool_(threads),
          matmul_(pool_, bf16),
          attend_(pool_, bf16),
          attend_lines_(pool_, bf16),
          score_(pool_, bf16),
          score_blocks_(pool_) {}

    int threads() const { return pool_.threads(); }
    ThreadPool& pool() { return pool_; }

    Result<std::unique_ptr<PackedMatrix>> pack(std::span<const HostMatrix> parts) override;
    Result<size_t> packed_bytes(std::span<const HostMatrix> parts) const override;
    Status matmul(const MatmulArgs& args) override;
    Status reserve(const MatmulArgs& args) override { return matmul_.reserve(args.x.rows, args.x.columns); }
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
    /// Calls function(row_begin, row_end) over all rows, a task taking some thousand elements.
    template <class F>
    void over_rows(int64_t rows, int64_t row_elements, F&& function);

    Device& device_;
    ThreadPool pool_;
    Matmul matmul_;
    Attend attend_;
    AttendLines attend_lines_;
    Score score_;
    ScoreBlocks score_blocks_;
};

}  // namespace rondo::cpu
