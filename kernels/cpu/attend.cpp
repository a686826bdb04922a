#include "kernels/cpu/attend.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "config/checked.hpp"
#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/cpu_features.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t lines_per_tile = 64;
constexpr int64_t split_blocks = 32;   // of keys, for sequences with few rows: 512 keys of full blocks
constexpr int64_t split_rows_max = 8;  // more bulk rows than this give enough tiles without splitting the keys

/// A tile and where its sums go. Tiles of one (sequence, head, rows) stand next to each other, split by split.
struct Work {
    int32_t sequence;
    int32_t head;
    int32_t row;  // first, in the batch
    int32_t rows;
    int32_t split;  // which, of
    int32_t splits;
    int64_t first_line;  // of the partial sums, when splits > 1
};

int64_t rows_per_tile(int group) {
    return std::max<int64_t>(1, lines_per_tile / group);
}

/// Blocks that row `visible − 1` can see.
int64_t visible_blocks(const int32_t* block_begin, int64_t block_count, int64_t visible) {
    return std::lower_bound(block_begin, block_begin + block_count, static_cast<int32_t>(visible)) - block_begin;
}

void write_line(const Tensor& out, int64_t row, int64_t column, const float* values, int64_t count) {
    if (out.dtype == DType::bf16) {
        convert_row(values, out.row<uint16_t>(row) + column, count);
    } else {
        std::copy(values, values + count, out.row<float>(row) + column);
    }
}

/// The plan of a call: every tile, in the order in which threads claim them.
struct Planner {
    const AttendArgs& args;
    int group;
    Work* work = nullptr;  // null while counting
    int64_t count = 0;
    int64_t partial_lines = 0;

    void add(int s) {
        const SequenceTables& tables = args.sequences;
        const int32_t begin = tables.row_begin[s], end = tables.row_begin[s + 1];
        const int64_t rows = end - begin;
        const int32_t* const block_begin = tables.block_begin + s * tables.blocks_stride;
        const int64_t step = rows_per_tile(group);
        for (int64_t row = 0; row < rows; row += step) {
            const int64_t used = std::min(step, rows - row);
            const int64_t visible = tables.kv_length[s] - rows + row + used;
            const int64_t blocks = visible_blocks(block_begin, tables.block_count[s], visible);
            const bool whole = args.rows == Rows::bulk && rows > split_rows_max;
            const int64_t splits = whole ? 1 : ceil_div(blocks, split_blocks);
            for (int head = 0; head < args.kv.heads; ++head) {
                for (int64_t split = 0; split < splits; ++split, ++count) {
                    if (work != nullptr) {
                        work[count] = {s,
                                       head,
                                       static_cast<int32_t>(begin + row),
                                       static_cast<int32_t>(used),
                                       static_cast<int32_t>(split),
                                       static_cast<int32_t>(splits),
                                       partial_lines};
                    }
                    if (splits > 1) partial_lines += round_up<int64_t>(used * group, 16);
                }
            }
        }
    }
};

AttendTile tile_of(const AttendArgs& args, const Work& work, int group) {
    const SequenceTables& tables = args.sequences;
    const int64_t rows = tables.row_begin[work.sequence + 1] - tables.row_begin[work.sequence];
    const int64_t row = work.row - tables.row_begin[work.sequence];
    AttendTile tile;
    tile.q = args.q.slice_rows(work.row, work.rows);
    tile.kv = args.kv;
    tile.kv_head = work.head;
    tile.group = group;
    tile.scale = args.scale;
    tile.first_visible = tables.kv_length[work.sequence] - rows + row + 1;
    const int32_t* const block_begin = tables.block_begin + work.sequence * tables.blocks_stride;
    const int64_t blocks =
        visible_blocks(block_begin, tables.block_count[work.sequence], tile.first_visible + work.rows - 1);
    const int64_t first = work.splits == 1 ? 0 : work.split * split_blocks;
    tile.blocks = tables.blocks + work.sequence * tables.blocks_stride + first;
    tile.block_begin = block_begin + first;
    tile.block_count = work.splits == 1 ? blocks : std::min(split_blocks, blocks - first);
    tile.blocks_behind = blocks - first - tile.block_count;
    return tile;
}

/// Combines the splits of one (sequence, head, rows) in order and divides.
void finish(const AttendArgs& args, const Work& work, int group, const AttendSums& sums) {
    const int64_t d = args.kv.atom.head_dim;
    const int64_t lines = work.rows * group;
    const int64_t stride = round_up<int64_t>(lines, 16);
    float line_out[1024];
    assert(d <= 1024);
    for (int64_t line = 0; line < lines; ++line) {
        float max = nothing_seen;
        for (int64_t split = 0; split < work.splits; ++split) max = std::max(max, sums.max[split * stride + line]);
        float total = 0.0F;
        std::fill(line_out, line_out + d, 0.0F);
        for (int64_t split = 0; split < work.splits; ++split) {
            const int64_t at = split * stride + line;
            const float factor = std::exp2(sums.max[at] - max);
            total += sums.total[at] * factor;
            const float* const weighted = sums.weighted + at * d;
            for (int64_t c = 0; c < d; ++c) line_out[c] += weighted[c] * factor;
        }
        const float inverse = 1.0F / total;
        for (int64_t c = 0; c < d; ++c) line_out[c] *= inverse;
        write_line(args.out, work.row + line / group, (work.head * group + line % group) * d, line_out, d);
    }
}

}  // namespace

Status Attend::run(const AttendArgs& args) {
    const int group = args.heads / args.kv.heads;
    const int64_t d = args.kv.atom.head_dim;
    assert(args.heads % args.kv.heads == 0 && args.q.columns == args.heads * d);
    const bool amx = cpu_features().amx_bf16 && args.kv.atom.dtype != DType::f32 && d % 32 == 0;

    Planner counted{args, group};
    for (int s = 0; s < args.sequences.sequences; ++s) counted.add(s);
    Planner plan{args, group, plan_.get<Work>(static_cast<size_t>(counted.count) * sizeof(Work))};
    for (int s = 0; s < args.sequences.sequences; ++s) plan.add(s);
    const Work* const work = plan.work;

    const int64_t partial_lines = plan.partial_lines;
    auto* const partials = partials_.get<float>(static_cast<size_t>(partial_lines * (d + 2)) * sizeof(float));
    const auto sums_at = [&](float* base, int64_t lines, int64_t first) {
        return AttendSums{base + first * d, base + lines * d + first, base + lines * (d + 1) + first};
    };
    pool_.run_stretches(plan.count, [&](int64_t i, int thread) {
        const AttendTile tile = tile_of(args, work[i], group);
        const int64_t lines = round_up<int64_t>(tile.lines(), 16);
        auto& [scratch, own_sums] = scratch_[static_cast<size_t>(thread)];
        AttendSums sums;
        if (work[i].splits > 1) {
            sums = sums_at(partials, partial_lines, work[i].first_line);
        } else {
            sums = sums_at(own_sums.get<float>(static_cast<size_t>(lines * (d + 2)) * sizeof(float)), lines, 0);
        }
        if (amx) {
            attend_tile_amx(tile, scratch, sums);
        } else {
            attend_tile_portable(tile, scratch, sums);
        }
        if (work[i].splits == 1) finish(args, work[i], group, sums);
    });
    if (partial_lines == 0) return Status::ok();
    pool_.run(plan.count, [&](int64_t i, int) {
        if (work[i].splits == 1 || work[i].split != 0) return;
        finish(args, work[i], group, sums_at(partials, partial_lines, work[i].first_line));
    });
    return Status::ok();
}

}  // namespace rondo::cpu
