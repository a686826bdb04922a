#include "kernels/cpu/attend_tile.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "config/checked.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/cpu_features.hpp"

namespace rondo::cpu {

namespace {

/// Of few rows: with fewer queries of a KV head, channels side by side are faster than queries in half-empty registers.
constexpr int queries_of_floats_min = 5;

void write_query(const Tensor& out, int64_t row, int64_t column, const float* values, int64_t count) {
    if (out.dtype == DType::bf16) {
        convert_row(values, out.row<uint16_t>(row) + column, count);
    } else {
        std::copy(values, values + count, out.row<float>(row) + column);
    }
}

}  // namespace

AttendSums place_sums(float* base, int64_t queries, int64_t first_query, int64_t d) {
    return {base + first_query * d, base + queries * d + first_query, base + queries * (d + 1) + first_query};
}

void attend_tile(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    const CpuFeatures& has = cpu_features();
    const bool in_bf16 = tile.atom.dtype != DType::f32 && tile.head_dim() % 32 == 0;
    if (in_bf16 && tile.bf16 == Bf16Way::tiles) {
        attend_tile_amx(tile, scratch, sums);
    } else if (in_bf16 && tile.bf16 == Bf16Way::pairs) {
        attend_tile_bf16(tile, scratch, sums);
    } else if (in_bf16 && has.avx512 && (tile.many_rows || tile.of_lines || tile.group >= queries_of_floats_min)) {
        attend_tile_floats(tile, scratch, sums);
    } else if (tile.many_rows || tile.of_lines) {
        attend_tile_portable(tile, scratch, sums);
    } else {
        attend_tile_few_rows(tile, scratch, sums);
    }
}

void write_tile(const AttendTile& tile, int splits, const AttendSums& sums, const Tensor& out, int64_t row) {
    const int64_t d = tile.head_dim();
    const int64_t stride = round_up<int64_t>(tile.queries(), 16);
    float query_out[1024];
    assert(d <= 1024);
    for (int64_t query = 0; query < tile.queries(); ++query) {
        float max = nothing_seen;
        for (int64_t split = 0; split < splits; ++split) max = std::max(max, sums.max[split * stride + query]);
        float total = 0.0F;
        std::fill(query_out, query_out + d, 0.0F);
        for (int64_t split = 0; split < splits; ++split) {
            const int64_t at = split * stride + query;
            const float factor = sums.max[at] == max ? 1.0F : std::exp2(sums.max[at] - max);
            total += sums.total[at] * factor;
            const float* const weighted = sums.weighted + at * d;
            for (int64_t c = 0; c < d; ++c) query_out[c] += weighted[c] * factor;
        }
        const float inverse = 1.0F / total;
        for (int64_t c = 0; c < d; ++c) query_out[c] *= inverse;
        write_query(out, row + query / tile.group, (tile.first_head + query % tile.group) * d, query_out, d);
    }
}

}  // namespace rondo::cpu
