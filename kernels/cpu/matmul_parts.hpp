#pragma once

#include "kernels/cpu/matmul.hpp"
#include "kernels/cpu/quant_activations.hpp"

/// What the files of Ops::matmul share.
namespace rondo::cpu {

constexpr int64_t input_block_bytes = int64_t{1} << 20;  // of rows that stay in L2 while panels stream past

/// x in the forms this product's segments read.
struct Matmul::Inputs {
    const uint16_t* bf16 = nullptr;  // [M, K padded to 32], or tiles of that
    int64_t bf16_stride = 0;
    TileRows tiles;
    const float* f32 = nullptr;  // [M, K padded to 32]
    int64_t f32_stride = 0;
    QuantActivations quant;
};

/// Where a panel's outputs stand, from `row` on.
inline ProductOut panel_out(const MatmulArgs& args, const PackedWeight::Segment& segment, int64_t panel, int64_t row) {
    const int64_t first = segment.first_output + panel * panel_outputs;
    ProductOut out;
    out.data = args.out.slice_columns(first, 0).row<std::byte>(row);
    out.dtype = args.out.dtype;
    out.stride = args.out.stride;
    out.columns = std::min(panel_outputs, segment.outputs - panel * panel_outputs);
    out.bias = args.bias == nullptr ? nullptr : args.bias + first;
    out.accumulate = args.accumulate;
    return out;
}

/// What a task of tiles keeps: two stretches of panels, then the sums of its panels.
int64_t tile_task_bytes(int64_t rows);

}  // namespace rondo::cpu
