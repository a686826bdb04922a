#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "config/checked.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/gemm_amx.hpp"
#include "kernels/cpu/gemm_bf16.hpp"
#include "kernels/cpu/gemm_rows.hpp"
#include "kernels/cpu/matmul_parts.hpp"
#include "kernels/cpu/quant_layout.hpp"
#include "kernels/cpu/quant_ways.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t few_rows = 48;  // up to here unpacking a quantized panel for tiles costs more than int8 products
constexpr int64_t panel_groups = panel_outputs / quant_group_rows;

/// How many of `rows` stay in L2 while panels stream past: about as many in each block, a multiple of `unit`.
int64_t rows_of_block(int64_t rows, int64_t row_bytes, int64_t unit) {
    const int64_t blocks = ceil_div(rows, std::max<int64_t>(64, input_block_bytes / row_bytes));
    return round_up(ceil_div(rows, blocks), unit);
}

/// Copies row m of x as `columns_padded` elements of T, the padding zero.
void place_row(const Tensor& x, int64_t m, uint16_t* to, int64_t columns_padded) {
    if (x.dtype == DType::bf16) {
        std::memcpy(to, x.row<uint16_t>(m), static_cast<size_t>(x.columns) * sizeof(uint16_t));
    } else {
        convert_row(x.row<float>(m), to, x.columns);
    }
    std::fill(to + x.columns, to + columns_padded, uint16_t{0});
}

void place_row(const Tensor& x, int64_t m, float* to, int64_t columns_padded) {
    if (x.dtype == DType::bf16) {
        convert_row(x.row<const uint16_t>(m), to, x.columns);
    } else {
        std::memcpy(to, x.row<float>(m), static_cast<size_t>(x.columns) * sizeof(float));
    }
    std::fill(to + x.columns, to + columns_padded, 0.0F);
}

}  // namespace

/// Quantized weights are multiplied in int8 for any number of rows. For many rows, bf16 tiles are faster than that.
bool Matmul::multiplies_int8(const PackedWeight::Segment& segment, bool few) const {
    return segment.quant() != nullptr && (few || bf16_ != Bf16Way::tiles);
}

/// Weights in f16 are never rounded to bf16, which keeps 8 of their 11 bits.
bool Matmul::multiplies_bf16(const PackedWeight::Segment& segment) const {
    const auto* const dense = segment.dense();
    return bf16_ != Bf16Way::floats && (dense == nullptr || dense->type() == DType::bf16);
}

Matmul::Matmul(ThreadPool& pool, Bf16Way bf16)
    : pool_(pool), bf16_(bf16), unpacked_(static_cast<size_t>(pool.threads())) {}

Status Matmul::reserve(int64_t rows, int64_t inputs) {
    const int64_t padded = round_up<int64_t>(inputs, 32);
    const auto count = static_cast<size_t>(rows * padded);
    if (count == 0) return Status::ok();
    try {
        (void)bf16_rows_.get(count * sizeof(uint16_t));
        (void)f32_rows_.get(count * sizeof(float));
        (void)quant_rows_.get(std::max(activation_bytes(rows, inputs), activation_bytes(rows, inputs, strip_rows)));
        const int64_t together = rows_of_block(rows, padded, strip_rows);
        int64_t wide = 0;  // of all types: with and without minima, with one scale and with two
        for (const DType type : {DType::q8_0, DType::q4_1, DType::q6_k, DType::q2_k})
            wide = std::max(wide, wide_bytes(type, padded, together));
        for (Scratch& own : unpacked_) (void)own.get(static_cast<size_t>(std::max(tile_task_bytes(rows), wide)));
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory, "the host has no room for products of " + std::to_string(rows) +
                                                        " rows of " + std::to_string(inputs));
    }
    return Status::ok();
}

void Matmul::prepare(const MatmulArgs& args, const PackedWeight& weight, bool few, QuantWay way, Inputs& inputs) {
    bool want_bf16 = false, want_f32 = false, want_quant = false;
    for (const auto& segment : weight.segments()) {
        if (multiplies_int8(segment, few)) {
            want_quant = true;
        } else if (multiplies_bf16(segment)) {
            want_bf16 = true;
        } else {
            want_f32 = true;
        }
    }
    const Tensor& x = args.x;
    const int64_t padded = round_up<int64_t>(x.columns, 32);
    const auto count = static_cast<size_t>(x.rows * padded);
    uint16_t* bf16 = nullptr;
    float* f32 = nullptr;
    const bool tiles = bf16_ == Bf16Way::tiles;
    const bool as_it_lies = x.dtype == DType::bf16 && x.columns == padded && (!tiles || x.rows == 1);
    if (want_bf16 && !as_it_lies) bf16 = bf16_rows_.get<uint16_t>(count * sizeof(uint16_t));
    if (want_f32) f32 = f32_rows_.get<float>(count * sizeof(float));
    inputs.bf16 = as_it_lies ? x.row<const uint16_t>(0) : bf16;
    inputs.bf16_stride = as_it_lies ? x.stride : padded;
    inputs.tiles = {inputs.bf16, x.rows, padded};
    inputs.f32_stride = padded;
    inputs.f32 = f32;
    if (want_quant) {
        const int64_t side_by_side = way == QuantWay::widened ? strip_rows : 1;
        const size_t bytes = activation_bytes(x.rows, x.columns, side_by_side);
        inputs.quant = place_activations({quant_rows_.get(bytes), bytes}, x.rows, x.columns, side_by_side);
    }
    if (bf16 == nullptr && f32 == nullptr && !want_quant) return;
    constexpr int64_t rows_per_task = strip_rows;  // else two threads would write to the same cache lines
    pool_.run(ceil_div(x.rows, rows_per_task), [&](int64_t task, int) {
        const int64_t end = std::min(x.rows, (task + 1) * rows_per_task);
        for (int64_t m = task * rows_per_task; m < end; ++m) {
            if (bf16 != nullptr && tiles) place_tile_row(x, m, bf16, padded);
            if (bf16 != nullptr && !tiles) place_row(x, m, bf16 + m * padded, padded);
            if (f32 != nullptr) place_row(x, m, f32 + m * padded, padded);
        }
        if (want_quant) quantize_rows(x, inputs.quant, task * rows_per_task, end);
    });
}

void Matmul::multiply_panel(const MatmulArgs& args, const PackedWeight::Segment& segment, int64_t panel,
                            int64_t row_begin, int64_t row_end, const Inputs& inputs) {
    const ProductOut out = panel_out(args, segment, panel, row_begin);
    const int64_t rows = row_end - row_begin;
    const DensePanels& dense = *segment.dense();
    const std::byte* const weights = dense.panel(segment.storage, panel);
    if (!multiplies_bf16(segment)) {
        rows_panel(dense.type(), inputs.f32 + row_begin * inputs.f32_stride, inputs.f32_stride, rows, weights,
                   dense.columns_padded(), out);
    } else if (bf16_ == Bf16Way::tiles) {
        for (int64_t row = 0; row < rows; row += tile_rows_at_once) {
            const TileRows x = inputs.tiles.slice(row_begin + row, std::min(tile_rows_at_once, rows - row));
            amx_few_rows(x, reinterpret_cast<const uint16_t*>(weights), out.from_row(row));
        }
    } else {
        bf16_rows_panel(inputs.bf16 + row_begin * inputs.bf16_stride, inputs.bf16_stride, rows,
                        reinterpret_cast<const uint16_t*>(weights), dense.columns_padded(), out);
    }
}

void Matmul::multiply_groups(const MatmulArgs& args, const PackedWeight::Segment& segment, int64_t begin, int64_t end,
                             int64_t row_begin, int64_t row_end, const Inputs& inputs, Scratch& scratch) {
    const QuantPanels& quant = *segment.quant();
    end = std::min(end, quant.groups());
    if (begin >= end) return;  // the last panel is not full
    const int64_t rows = row_end - row_begin, first = begin * quant_group_rows;
    const QuantActivations x = inputs.quant.slice_rows(row_begin, rows);
    const float* const bias = args.bias == nullptr ? nullptr : args.bias + segment.first_output;
    const Tensor to = args.out.slice_columns(segment.first_output, segment.outputs).slice_rows(row_begin, rows);
    // The kernel writes output n of a row at y[n], so y stands `first` floats before these groups' own sums.
    const int64_t stride = (end - begin) * quant_group_rows;
    const int64_t wide = x.side_by_side > 1 ? wide_bytes(quant.type(), quant.columns(), rows) : 0;
    const int64_t own = to.dtype == DType::f32 ? 0 : (rows * stride + first) * static_cast<int64_t>(sizeof(float));
    auto* const memory = scratch.get(static_cast<size_t>(wide + own));
    if (to.dtype == DType::f32) {
        quant.multiply(segment.storage, x, begin, end, to.row<float>(0), to.stride, bias, args.accumulate, memory);
        return;
    }
    auto* const sums = reinterpret_cast<float*>(memory + wide);
    quant.multiply(segment.storage, x, begin, end, sums, stride, bias, false, memory);
    ProductOut out;
    out.data = to.slice_columns(first, 0).row<std::byte>(0);
    out.dtype = to.dtype;
    out.stride = to.stride;
    out.columns = std::min(stride, segment.outputs - first);
    write_product(sums + first, stride, rows, out);
}

/// How so many rows meet quantized weights: as is fastest for the largest of them. What is measured for that, and for
/// the rows of the last block, is measured here, before threads share the product.
QuantWay Matmul::way_of(const PackedWeight& weight, bool few, int64_t rows, int64_t last_rows) const {
    QuantWay way = QuantWay::alone;
    int64_t outputs = 0;
    for (const auto& segment : weight.segments()) {
        if (!multiplies_int8(segment, few)) continue;
        const QuantWay own = quant_way(segment.quant()->type(), rows);
        if (last_rows > 0) (void)quant_way(segment.quant()->type(), last_rows);
        if (segment.outputs > outputs) way = own;
        outputs = std::max(outputs, segment.outputs);
    }
    return way;
}

Status Matmul::run(const MatmulArgs& args) {
    const auto& weight = static_cast<const PackedWeight&>(*args.w);
    assert(args.x.columns == weight.inputs() && args.out.columns == weight.outputs() && args.x.rows == args.out.rows);
    assert(!args.accumulate || args.out.dtype == DType::f32);
    const int64_t rows = args.x.rows;
    if (rows == 0) return Status::ok();
    const bool few = args.rows == Rows::invariant || rows <= few_rows;
    // Row blocks outside, panels inside: a thread's block of rows stays in its L2 while panels stream past it. Each
    // group of quantized weights is a task, so that the threads finish together, or two are, where that is the faster
    // way to multiply so many rows.
    const auto any = [&](auto matches) { return std::ranges::any_of(weight.segments(), matches); };
    const bool int8 = any([&](const auto& segment) { return multiplies_int8(segment, few); });
    const bool floats = any([&](const auto& segment) { return segment.dense() && !multiplies_bf16(segment); });
    const int64_t row_bytes = round_up<int64_t>(args.x.columns, 32) * (int8 ? 1 : floats ? 4 : 2);
    const int64_t block_rows = few ? rows : rows_of_block(rows, row_bytes, floats ? 96 : int8 ? strip_rows : 32);
    const int64_t blocks = ceil_div(rows, block_rows);
    const bool busy = blocks * weight.panel_count() * panel_groups >= 4 * pool_.threads();  // with two groups a task
    const QuantWay way = busy ? way_of(weight, few, std::min(rows, block_rows), rows % block_rows) : QuantWay::alone;

    Inputs inputs;
    prepare(args, weight, few, way, inputs);
    if (rows > tile_rows_at_once && inputs.bf16 != nullptr && bf16_ == Bf16Way::tiles && !int8) {
        run_tiles(args, inputs);
        return Status::ok();
    }

    const int64_t task_groups = way == QuantWay::alone ? 1 : 2;
    const int64_t parts = int8 ? panel_groups / task_groups : 1;
    const int64_t panel_tasks = weight.panel_count() * parts;
    pool_.run_stretches(panel_tasks * blocks, [&](int64_t task, int thread) {
        Scratch& scratch = unpacked_[static_cast<size_t>(thread)];
        const int64_t row_begin = task / panel_tasks * block_rows;
        const int64_t row_end = std::min(rows, row_begin + block_rows);
        int64_t panel = task % panel_tasks / parts;
        const int64_t part = task % parts;
        const PackedWeight::Segment& segment = weight.segment_of(panel);
        if (multiplies_int8(segment, few)) {
            const int64_t group = panel * panel_groups + part * task_groups;
            multiply_groups(args, segment, group, group + task_groups, row_begin, row_end, inputs, scratch);
            return;
        }
        if (part != 0) return;  // a dense segment between quantized ones
        multiply_panel(args, segment, panel, row_begin, row_end, inputs);
    });
    return Status::ok();
}

}  // namespace rondo::cpu
