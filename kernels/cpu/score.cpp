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

/// How the queries of a KV head are cut: some rows in some heads are a part.
struct Score::Parts {
    explicit Parts(const ScoreArgs& args)
        : group(args.heads / args.kv.heads),
          heads_each(std::min(group, score_queries_max)),
          head_parts(ceil_div<int64_t>(group, heads_each)),
          rows_each(std::max<int64_t>(1, score_queries_max / group)),
          count(ceil_div(args.q.rows, rows_each) * head_parts) {}

    int group, heads_each;
    int64_t head_parts, rows_each, count;
};

void Score::sum_part(const ScoreArgs& args, const Parts& parts, int64_t head, int64_t part, int thread, float* sums) {
    const int64_t stride = score_stride(args.keys);
    const auto first_head = static_cast<int>(part % parts.head_parts) * parts.heads_each;
    ScoreTile tile;
    tile.args = &args;
    tile.bf16 = bf16_;
    tile.first_head = static_cast<int>(head) * parts.group + first_head;
    tile.heads = std::min(parts.heads_each, parts.group - first_head);
    tile.first_row = part / parts.head_parts * parts.rows_each;
    tile.queries = static_cast<int>(std::min(parts.rows_each, args.q.rows - tile.first_row)) * tile.heads;
    PerThread& own = scratch_[static_cast<size_t>(thread)];
    auto* const weights = own.weights.get<float>(static_cast<size_t>(score_queries_max * stride) * sizeof(float));
    score_tile(tile, own.kernel, weights, stride);
    sum_queries(weights, stride, tile.queries, args.keys, 1.0F / static_cast<float>(parts.group), sums);
}

/// Parts are added up in order, some at a time, because those of all rows could take any amount of memory.
Status Score::keys(const Tensor& out, const ScoreArgs& args) {
    const int64_t kv_heads = args.kv.heads, keys = args.keys, stride = score_stride(keys);
    assert(out.rows == kv_heads && out.columns == keys && out.dtype == DType::f32);
    if (args.q.rows == 0) {
        for (int64_t head = 0; head < kv_heads; ++head) std::fill_n(out.row<float>(head), keys, 0.0F);
        return Status::ok();
    }
    const Parts parts(args);
    const int64_t fit = static_cast<int64_t>(scratch_kept_bytes / sizeof(float)) / (kv_heads * stride) - 1;
    const int64_t together = std::min(parts.count, std::max(fit, ceil_div<int64_t>(2 * pool_.threads(), kv_heads)));
    const int64_t head_floats = (1 + together) * stride;  // the sum so far, then the parts
    auto* const partials = partials_.get<float>(static_cast<size_t>(kv_heads * head_floats) * sizeof(float));
    for (int64_t first = 0; first < parts.count; first += together) {
        const int64_t count = std::min(together, parts.count - first);
        pool_.run(kv_heads * count, [&](int64_t task, int thread) {
            const int64_t head = task / count, part = task % count;
            sum_part(args, parts, head, first + part, thread, partials + head * head_floats + (1 + part) * stride);
        });
        constexpr int64_t keys_each = 4096;
        const int64_t pieces = ceil_div(keys, keys_each);
        pool_.run(kv_heads * pieces, [&](int64_t task, int) {
            const int64_t head = task / pieces, key = task % pieces * keys_each;
            float* const sum = partials + head * head_floats + key;
            const int before = first == 0 ? 0 : 1;
            sum_queries(sum + (1 - before) * stride, stride, static_cast<int>(count) + before,
                        std::min(keys_each, keys - key), 1.0F,
                        first + count == parts.count ? out.row<float>(head) + key : sum);
        });
    }
    give_back();
    return Status::ok();
}

void Score::give_back() {
    for (PerThread& own : scratch_) own.weights.give_back();
    partials_.give_back();
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
    give_back();
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
