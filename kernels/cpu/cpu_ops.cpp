#include "kernels/cpu/cpu_ops.hpp"

#include <algorithm>
#include <new>

#include "config/checked.hpp"
#include "kernels/cpu/append_kv.hpp"
#include "kernels/cpu/move_kv.hpp"
#include "kernels/cpu/packed_weight.hpp"
#include "kernels/cpu/read_kv.hpp"
#include "kernels/cpu/rms_norm.hpp"
#include "kernels/cpu/rope.hpp"
#include "kernels/cpu/rope_angles.hpp"
#include "kernels/cpu/silu_mul.hpp"
#include "kernels/cpu/softmax.hpp"
#include "kernels/cpu/take_rows.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t elements_per_task = 16384;  // a few microseconds: enough to be worth another thread

/// Scratch throws std::bad_alloc where the host is out of memory; the caller gets a Status.
template <class F>
Status guarded(F&& function) {
    try {
        return function();
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory, "the host has no memory left for an operation's scratch space");
    }
}

}  // namespace

template <class F>
void CpuOps::over_rows(int64_t rows, int64_t row_elements, F&& function) {
    const int64_t step = std::max<int64_t>(1, elements_per_task / std::max<int64_t>(row_elements, 1));
    pool_.run(ceil_div(rows, step),
              [&](int64_t task, int) { function(task * step, std::min(rows, (task + 1) * step)); });
}

Result<std::unique_ptr<PackedMatrix>> CpuOps::pack(std::span<const HostMatrix> parts) {
    return PackedWeight::pack(parts, device_, pool_);
}

Result<size_t> CpuOps::packed_bytes(std::span<const HostMatrix> parts) const {
    return PackedWeight::packed_bytes(parts);
}

Status CpuOps::matmul(const MatmulArgs& args) {
    return guarded([&] { return matmul_.run(args); });
}

Status CpuOps::embed(const Tensor& out, const int32_t* ids, const PackedMatrix& table) {
    const auto& weight = static_cast<const PackedWeight&>(table);
    over_rows(out.rows, out.columns, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            if (ids[i] >= 0) weight.unpack_row(ids[i], out.row<float>(i));
        }
    });
    return Status::ok();
}

Status CpuOps::rms_norm(const Tensor& out, const Tensor& x, const float* weight, float eps) {
    over_rows(x.rows, x.columns, [&](int64_t begin, int64_t end) { rms_norm_rows(out, x, weight, eps, begin, end); });
    return Status::ok();
}

Status CpuOps::head_norm(const Tensor& x, const float* weight, int heads, float eps) {
    over_rows(x.rows, x.columns, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const Tensor head_rows = Tensor::of(x.row<std::byte>(i), x.dtype, heads, x.columns / heads);
            rms_norm_rows(head_rows, head_rows, weight, eps, 0, heads);
        }
    });
    return Status::ok();
}

Status CpuOps::rope_angles(const Tensor& out, const int32_t* positions, const double* inverse_frequency) {
    over_rows(out.rows, out.columns * 32,
              [&](int64_t begin, int64_t end) { rope_angles_rows(out, positions, inverse_frequency, begin, end); });
    return Status::ok();
}

Status CpuOps::rope(const Tensor& x, const Tensor& angles, int heads) {
    over_rows(x.rows, x.columns, [&](int64_t begin, int64_t end) { rope_rows(x, angles, heads, begin, end); });
    return Status::ok();
}

Status CpuOps::append_kv(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots) {
    over_rows(k.rows, k.columns * 4, [&](int64_t begin, int64_t end) { append_kv_rows(kv, k, v, slots, begin, end); });
    return Status::ok();
}

Status CpuOps::read_kv(const Tensor& k, const Tensor& v, const KvLayer& kv, const int32_t* slots) {
    over_rows(k.rows, k.columns * 4, [&](int64_t begin, int64_t end) { read_kv_rows(k, v, kv, slots, begin, end); });
    return Status::ok();
}

Status CpuOps::attend(const AttendArgs& args) {
    return guarded([&] { return attend_.run(args); });
}

Status CpuOps::attend_selected(const AttendArgs& args, const AttendedKeys* selected, const std::byte* atoms) {
    return guarded([&] { return attend_.run(args, selected, atoms); });
}

Status CpuOps::attend_lines(const AttendArgs& args, const LineTables& lines) {
    return guarded([&] { return attend_lines_.run(args, lines); });
}

Status CpuOps::score_keys(const Tensor& out, const ScoreArgs& args) {
    return guarded([&] { return score_.keys(out, args); });
}

Status CpuOps::score_rows(const ScoreArgs& args, const ConsumeRows& consume) {
    return guarded([&] { return score_.rows(args, consume); });
}

Status CpuOps::score_blocks(const Tensor& out, const ScoreArgs& args) {
    return guarded([&] { return score_blocks_.run(out, args); });
}

Status CpuOps::score_selected(const Tensor& out, const ScoreArgs& args, const AttendedKeys& selected,
                              const std::byte* atoms) {
    return guarded([&] { return score_.selected(out, args, selected, atoms); });
}

Status CpuOps::move_kv(const KvAtom& atom, std::byte* atoms, const int32_t* from, const int32_t* to, int64_t count) {
    over_rows(ceil_div<int64_t>(count, kv_block_tokens), int64_t{kv_block_tokens} * atom.head_dim * 4,
              [&](int64_t begin, int64_t end) {
                  move_keys(atom, atoms, from, to, begin * kv_block_tokens, std::min(count, end * kv_block_tokens));
              });
    return Status::ok();
}

Status CpuOps::silu_mul(const Tensor& out, const Tensor& x) {
    over_rows(x.rows, x.columns, [&](int64_t begin, int64_t end) { silu_mul_rows(out, x, begin, end); });
    return Status::ok();
}

Status CpuOps::softmax(const Tensor& out, const Tensor& x) {
    over_rows(x.rows, x.columns, [&](int64_t begin, int64_t end) { softmax_rows(out, x, begin, end); });
    return Status::ok();
}

Status CpuOps::take_rows(const Tensor& out, const Tensor& x, const int32_t* rows) {
    over_rows(out.rows, out.columns, [&](int64_t begin, int64_t end) { take_rows_rows(out, x, rows, begin, end); });
    return Status::ok();
}

}  // namespace rondo::cpu
