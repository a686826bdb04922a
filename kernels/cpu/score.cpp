#include "kernels/cpu/score.hpp"

#include <algorithm>
#include <cassert>

#include "config/checked.hpp"
#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/key_list.hpp"
#include "kernels/cpu/score_tile.hpp"

namespace rondo::cpu {

void score_tile(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    const KvAtom& atom = tile.args->kv.atom;
    const bool in_bf16 = atom.dtype != DType::f32 && atom.head_dim % 32 == 0;
    if (in_bf16 && tile.bf16 == Bf16Way::tiles) {
        score_tile_amx(tile, scratch, weights, stride);
    } else if (in_bf16 && tile.bf16 == Bf16Way::pairs) {
        score_tile_bf16(tile, scratch, weights, stride);
    } else if (in_bf16 && cpu_features().avx512) {
        score_tile_floats(tile, scratch, weights, stride);
    } else {
        score_tile_portable(tile, scratch, weights, stride);
    }
}

Status Score::keys(const Tensor& out, const ScoreArgs& args) {
    const int kv_heads = args.kv.heads, group = args.heads / kv_heads;
    const int64_t rows = args.q.rows, keys = args.keys;
    assert(out.rows == kv_heads && out.columns == keys && out.dtype == DType::f32);
    if (rows == 0) {
        for (int64_t head = 0; head < kv_heads; ++head) std::fill_n(out.row<float>(head), keys, 0.0F);
        return Status::ok();
    }
    const int64_t rows_each = std::max<int64_t>(1, score_queries_max / group);
    const int heads_each = std::min(group, score_queries_max);
    const int64_t row_parts = ceil_div(rows, rows_each), head_parts = ceil_div<int64_t>(group, heads_each);
    const int64_t parts = row_parts * head_parts, stride = score_stride(keys);
    auto* const partials = partials_.get<float>(static_cast<size_t>(kv_heads * parts * stride) * sizeof(float));
    pool_.run(kv_heads * parts, [&](int64_t task, int thread) {
        const int64_t part = task % parts;
        ScoreTile tile;
        tile.args = &args;
        tile.bf16 = bf16_;
        const auto head_part = static_cast<int>(part % head_parts) * heads_each;
        tile.first_head = static_cast<int>(task / parts) * group + head_part;
        tile.heads = std::min(heads_each, group - head_part);
        tile.first_row = part / head_parts * rows_each;
        tile.queries = static_cast<int>(std::min(rows_each, rows - tile.first_row)) * tile.heads;
        PerThread& own = scratch_[static_cast<size_t>(thread)];
        auto* const weights = own.weights.get<float>(static_cast<size_t>(score_queries_max * stride) * sizeof(float));
        score_tile(tile, own.kernel, weights, stride);
        sum_queries(weights, stride, tile.queries, keys, 1.0F / static_cast<float>(group), partials + task * stride);
    });
    constexpr int64_t keys_each = 4096;
    const int64_t pieces = ceil_div(keys, keys_each);
    pool_.run(kv_heads * pieces, [&](int64_t task, int) {
        const int64_t head = task / pieces, first = task % pieces * keys_each;
        sum_queries(partials + head * parts * stride + first, stride, static_cast<int>(parts),
                    std::min(keys_each, keys - first), 1.0F, out.row<float>(head) + first);
    });
    return Status::ok();
}

Status Score::rows(const ScoreArgs& args, const Ops::ConsumeRows& consume) {
    const int64_t rows = args.q.rows, keys = args.keys, stride = score_stride(keys);
    pool_.run(args.heads, [&](int64_t head, int thread) {
        PerThread& own = scratch_[static_cast<size_t>(thread)];
        auto* const weights = own.weights.get<float>(static_cast<size_t>(rows * stride) * sizeof(float));
        ScoreTile tile;
        tile.args = &args;
        tile.bf16 = bf16_;
        tile.first_head = static_cast<int>(head);
        for (; tile.first_row < rows; tile.first_row += score_queries_max) {
            tile.queries = static_cast<int>(std::min<int64_t>(score_queries_max, rows - tile.first_row));
            score_tile(tile, own.kernel, weights + tile.first_row * stride, stride);
        }
        Tensor out = Tensor::of(weights, DType::f32, rows, keys);
        out.stride = stride;
        consume(static_cast<int>(head), out);
    });
    return Status::ok();
}

/// Scores in f32 on every CPU: the keys are few, and attention has just read them.
Status Score::selected(const Tensor& out, const ScoreArgs& args, const AttendedKeys& selected, const std::byte* atoms) {
    const int kv_heads = args.kv.heads, group = args.heads / kv_heads;
    assert(out.rows == kv_heads && out.dtype == DType::f32 && args.q.rows == 1 && selected.counts != nullptr);
    pool_.run(kv_heads, [&](int64_t head, int thread) {
        const KeyList list(args.kv, args.sequence, 0, static_cast<int>(head), args.keys, &selected, atoms);
        const int64_t count = list.count(), columns = count * kv_block_tokens;
        assert(columns <= out.columns);
        PerThread& own = scratch_[static_cast<size_t>(thread)];
        auto* const keys = own.keys.get<TileKeys>(static_cast<size_t>(count) * sizeof(TileKeys));
        list.write(0, count, keys);
        auto* const weights = own.weights.get<float>(static_cast<size_t>(group * columns) * sizeof(float));
        score_atoms({args.q, args.kv.atom, static_cast<int>(head) * group, group, args.scale, keys, count}, own.kernel,
                    weights);
        sum_queries(weights, columns, group, columns, 1.0F / static_cast<float>(group), out.row<float>(head));
        std::fill(out.row<float>(head) + columns, out.row<float>(head) + out.columns, 0.0F);
    });
    return Status::ok();
}

}  // namespace rondo::cpu
