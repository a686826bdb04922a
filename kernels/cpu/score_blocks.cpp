#include "kernels/cpu/score_blocks.hpp"

#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/read_kv.hpp"

namespace rondo::cpu {

namespace {

/// The blocks of one sequence. The rows lie in the last of them, from block `first_of_rows` on.
struct BlockRange {
    const int32_t* begin = nullptr;
    int64_t count = 0;
    int64_t first_of_rows = 0;
    int64_t keys = 0;
    int64_t first_row = 0;

    int64_t begin_of(int64_t block) const { return begin[block]; }
    int64_t end_of(int64_t block) const { return std::min<int64_t>(begin[block + 1], keys); }
    int64_t row_blocks() const { return count - first_of_rows; }
};

BlockRange range_of(const ScoreArgs& args) {
    BlockRange range{.begin = args.sequence.block_begin, .keys = args.keys, .first_row = args.keys - args.q.rows};
    while (range.begin[range.count] < range.keys) ++range.count;
    while (range.begin[range.first_of_rows + 1] <= range.first_row) ++range.first_of_rows;
    return range;
}

/// means[c · blocks + block]: element c of the mean of a block's keys. In this order products run over blocks.
void mean_keys(const ScoreArgs& args, int kv_head, const BlockRange& range, float* key, float* sum, float* means) {
    const int64_t d = args.kv.atom.head_dim;
    for (int64_t block = 0; block < range.count; ++block) {
        const std::byte* const atom = args.kv.at(args.sequence.blocks[block], kv_head);
        const int64_t keys = range.end_of(block) - range.begin_of(block);
        std::fill_n(sum, d, 0.0F);
        for (int token = 0; token < keys; ++token) {
            read_key(args.kv.atom, atom, token, key);
            for (int64_t c = 0; c < d; ++c) sum[c] += key[c];
        }
        for (int64_t c = 0; c < d; ++c) means[c * range.count + block] = sum[c] / static_cast<float>(keys);
    }
}

/// mean [d]: of the rows of one head that lie in a block.
void mean_queries(const ScoreArgs& args, int head, int64_t begin, int64_t end, float* query, float* mean) {
    const int64_t d = args.kv.atom.head_dim;
    std::fill_n(mean, d, 0.0F);
    for (int64_t row = begin; row < end; ++row) {
        const float* from = query;
        if (args.q.dtype == DType::bf16) {
            convert_row(args.q.row<const uint16_t>(row) + head * d, query, d);
        } else {
            from = args.q.row<const float>(row) + head * d;
        }
        for (int64_t c = 0; c < d; ++c) mean[c] += from[c];
    }
    for (int64_t c = 0; c < d; ++c) mean[c] *= args.scale / static_cast<float>(end - begin);
}

}  // namespace

Status ScoreBlocks::run(const Tensor& out, const ScoreArgs& args) {
    if (args.q.rows == 0) return Status::ok();  // which lie in no block
    const BlockRange range = range_of(args);
    const int64_t d = args.kv.atom.head_dim;
    assert(out.dtype == DType::f32 && out.rows == args.heads * range.row_blocks() && out.columns == range.count);
    const int group = args.heads / args.kv.heads;
    pool_.run(args.kv.heads, [&](int64_t kv_head, int thread) {
        const auto floats = static_cast<size_t>(d * (range.count + 2));
        auto* const one = scratch_[static_cast<size_t>(thread)].get<float>(floats * sizeof(float));
        float *const mean = one + d, *const keys = mean + d;
        mean_keys(args, static_cast<int>(kv_head), range, one, mean, keys);
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            for (int64_t i = 0; i < range.row_blocks(); ++i) {
                const int64_t block = range.first_of_rows + i;
                mean_queries(args, static_cast<int>(head),
                             std::max<int64_t>(0, range.begin_of(block) - range.first_row),
                             range.end_of(block) - range.first_row, one, mean);
                float* const scores = out.row<float>(head * range.row_blocks() + i);
                std::fill_n(scores, range.count, 0.0F);
                for (int64_t c = 0; c < d; ++c) {
                    const float* const of_blocks = keys + c * range.count;
                    for (int64_t b = 0; b <= block; ++b) scores[b] += mean[c] * of_blocks[b];
                }
            }
        }
    });
    return Status::ok();
}

}  // namespace rondo::cpu
