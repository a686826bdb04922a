#include "kernels/cpu/matmul.hpp"

#include <immintrin.h>

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
#include "kernels/cpu/quant_layout.hpp"
#include "kernels/cpu/quant_ways.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t few_rows = 48;  // up to here unpacking a quantized panel for tiles costs more than int8 products
constexpr int64_t panel_groups = panel_outputs / quant_group_rows;
constexpr int64_t input_block_bytes = int64_t{1} << 20;  // of rows that stay in L2 while panels stream past
constexpr int64_t tile_block_rows = 512;                 // of which some inputs at a time stay in L2
constexpr int64_t tile_stretch_numbers = tile_stretch * panel_outputs;
constexpr int64_t tile_task_panels = 4;  // at most, whose sums stay in L2 beside them
constexpr int64_t tile_copy_rows = 128;  // from here on a panel is copied so that its tiles fill L1

/// Rows of x that stay in L2 while panels stream past: a multiple of `unit`, at least 64.
int64_t rows_of_block(int64_t row_bytes, int64_t unit) {
    return std::max(round_up<int64_t>(64, unit), input_block_bytes / row_bytes / unit * unit);
}

/// What a task of tiles keeps: two stretches of panels, then the sums of its panels.
int64_t tile_task_bytes(int64_t rows) {
    return 2 * tile_stretch_numbers * static_cast<int64_t>(sizeof(uint16_t)) +
           tile_task_panels * tile_sums(std::min(rows, tile_block_rows)) * static_cast<int64_t>(sizeof(float));
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

const uint16_t* dense_panel(const PackedWeight::Segment& segment, int64_t panel) {
    return reinterpret_cast<const uint16_t*>(segment.dense()->panel(segment.storage, panel));
}

ProductOut panel_out(const MatmulArgs& args, const PackedWeight::Segment& segment, int64_t panel, int64_t row) {
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

}  // namespace

/// Some panels of the whole weight, whose inputs some rows meet.
struct Matmul::TileTask {
    const MatmulArgs& args;
    const PackedWeight& weight;
    TileRows x;
    int64_t row_begin;  // of x in the product
    int64_t panel_begin, panel_end;
};

/// x in the forms this product's segments read.
struct Matmul::Inputs {
    const uint16_t* bf16 = nullptr;  // [M, K padded to 32], or tiles of that
    int64_t bf16_stride = 0;
    TileRows tiles;
    const float* f32 = nullptr;  // [M, K padded to 32]
    int64_t f32_stride = 0;
    QuantActivations quant;
};

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
        (void)quant_rows_.get(activation_bytes(rows, inputs));
        const int64_t together = std::min(rows, rows_of_block(padded, 32));
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

void Matmul::prepare(const MatmulArgs& args, const PackedWeight& weight, bool few, Inputs& inputs) {
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
        const size_t bytes = activation_bytes(x.rows, x.columns);
        inputs.quant = place_activations({quant_rows_.get(bytes), bytes}, x.rows, x.columns);
    }
    if (bf16 == nullptr && f32 == nullptr && !want_quant) return;
    constexpr int64_t rows_per_task = 8;
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

/// The next stretch of a task, in the order in which they are added: by all panels, then the next inputs. None where
/// `begin` is behind the inputs.
Matmul::TileStretch Matmul::stretch_from(const TileTask& task, TileStretch at) const {
    for (; at.begin < task.x.inputs; at = {at.begin + tile_stretch, task.panel_begin}) {
        for (; at.panel < task.panel_end; ++at.panel) {
            int64_t panel = at.panel;
            if (multiplies_bf16(task.weight.segment_of(panel))) return at;
        }
    }
    return at;
}

/// What is done for a stretch while the one before it is multiplied: quantized weights are unpacked, others prefetched.
struct Matmul::TileWork {
    const PackedWeight::Segment* segment = nullptr;
    int64_t panel = 0, begin = 0, pieces = 0;
    uint16_t* tiles = nullptr;

    void do_piece(int64_t piece) const {
        if (const QuantPanels* const quant = segment->quant()) {
            quant->unpack_tile(segment->storage, panel, begin, piece, tiles);
            return;
        }
        const auto* const from =
            reinterpret_cast<const char*>(dense_panel(*segment, panel) + begin * panel_outputs) + piece * piece_bytes;
        for (int64_t line = 0; line < piece_bytes; line += 64) _mm_prefetch(from + line, _MM_HINT_T1);
    }
    void do_all() const {
        for (int64_t piece = 0; piece < pieces; ++piece) do_piece(piece);
    }

    static constexpr int64_t piece_bytes = 256;
};

Matmul::TileWork Matmul::work_for(const TileTask& task, TileStretch at, uint16_t* tiles) {
    TileWork work;
    if (at.begin >= task.x.inputs) return work;
    work = {.panel = at.panel, .begin = at.begin, .tiles = tiles};
    work.segment = &task.weight.segment_of(work.panel);
    if (const QuantPanels* const quant = work.segment->quant()) {
        work.pieces = quant->tile_count(at.begin);
    } else if (task.x.rows >= tile_copy_rows) {
        const int64_t count = std::min(tile_stretch, task.x.inputs - at.begin);
        work.pieces = count * panel_outputs * static_cast<int64_t>(sizeof(uint16_t)) / TileWork::piece_bytes;
    }
    return work;
}

/// A stretch of many rows by a panel. Few of the many meet all inputs at once of a panel as it is stored: its reading
/// takes longer than its products.
void Matmul::add_stretch(const TileTask& task, TileStretch at, uint16_t* tiles, float* sums, const TileWork& beside) {
    int64_t panel = at.panel, count = std::min(tile_stretch, task.x.inputs - at.begin);
    const PackedWeight::Segment& segment = task.weight.segment_of(panel);
    const ProductOut out = panel_out(task.args, segment, panel, task.row_begin);
    TileWeights weights = TileWeights::of_tiles(tiles, count / quant_block);
    if (segment.dense() != nullptr && task.x.rows >= tile_copy_rows) {
        copy_tiles(dense_panel(segment, panel), at.begin, count / quant_block, tiles);
    } else if (segment.dense() != nullptr) {
        weights = TileWeights::of_panel(dense_panel(segment, panel), 0);
        count = at.begin == 0 ? task.x.inputs : 0;
    }
    if (count > 0) {
        const TileBeside pieces{beside.pieces, [&beside](int64_t piece) { beside.do_piece(piece); }};
        amx_add(task.x, at.begin, count, weights, sums, out, pieces);
    } else {
        beside.do_all();
    }
}

/// Many rows by some panels in tiles, so that the rows' part stays in L2 and each panel's in L1. Panels of other kinds
/// come at the end.
void Matmul::multiply_tiles(const TileTask& task, const Inputs& inputs, Scratch& memory) {
    auto* const tiles = memory.get<uint16_t>(static_cast<size_t>(tile_task_bytes(task.x.rows)));
    auto* const sums = reinterpret_cast<float*>(tiles + 2 * tile_stretch_numbers);
    TileStretch at = stretch_from(task, {0, task.panel_begin});
    uint16_t *now = tiles, *then = tiles + tile_stretch_numbers;
    work_for(task, at, now).do_all();
    while (at.begin < task.x.inputs) {
        const TileStretch next = stretch_from(task, {at.begin, at.panel + 1});
        add_stretch(task, at, now, sums + (at.panel - task.panel_begin) * tile_sums(task.x.rows),
                    work_for(task, next, then));
        at = next;
        std::swap(now, then);
    }
    for (int64_t whole = task.panel_begin; whole < task.panel_end; ++whole) {
        int64_t panel = whole;
        const PackedWeight::Segment& segment = task.weight.segment_of(panel);
        if (!multiplies_bf16(segment))
            multiply_panel(task.args, segment, panel, task.row_begin, task.row_begin + task.x.rows, inputs);
    }
}

/// Tasks of about as many panels each, at least two a thread where there are enough. Where whole rows stay in L2 they
/// need not be shared by many panels.
void Matmul::run_tiles(const MatmulArgs& args, const Inputs& inputs) {
    const auto& weight = static_cast<const PackedWeight&>(*args.w);
    const int64_t rows = args.x.rows, panels = weight.panel_count();
    const int64_t threads = pool_.threads(), blocks = ceil_div(rows, tile_block_rows);
    const int64_t block_rows = round_up<int64_t>(ceil_div(rows, blocks), 32);
    const bool in_cache = block_rows * inputs.tiles.inputs * 2 <= input_block_bytes;
    const int64_t together = in_cache ? tile_task_panels / 2 : tile_task_panels;
    const int64_t wanted = round_up(std::max(ceil_div(panels, together), 2 * threads), threads);
    const int64_t parts = std::min(panels, wanted);
    pool_.run_stretches(parts * blocks, [&](int64_t task, int thread) {
        const int64_t part = task % parts, row_begin = task / parts * block_rows;
        const TileTask own{.args = args,
                           .weight = weight,
                           .x = inputs.tiles.slice(row_begin, std::min(block_rows, rows - row_begin)),
                           .row_begin = row_begin,
                           .panel_begin = panels * part / parts,
                           .panel_end = panels * (part + 1) / parts};
        multiply_tiles(own, inputs, unpacked_[static_cast<size_t>(thread)]);
    });
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
    const int64_t wide = wide_bytes(quant.type(), quant.columns(), rows);
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

/// 2 where two groups side by side are the faster way to multiply so many rows. What is measured for that is measured
/// here, before threads share the product: also for the rows of the last block.
int64_t Matmul::groups_of_task(const PackedWeight& weight, bool few, int64_t rows, int64_t last_rows) const {
    int64_t groups = 1;
    for (const auto& segment : weight.segments()) {
        if (!multiplies_int8(segment, few)) continue;
        if (quant_way(segment.quant()->type(), rows) != QuantWay::alone) groups = 2;
        if (last_rows > 0) (void)quant_way(segment.quant()->type(), last_rows);
    }
    return groups;
}

Status Matmul::run(const MatmulArgs& args) {
    const auto& weight = static_cast<const PackedWeight&>(*args.w);
    assert(args.x.columns == weight.inputs() && args.out.columns == weight.outputs() && args.x.rows == args.out.rows);
    assert(!args.accumulate || args.out.dtype == DType::f32);
    const int64_t rows = args.x.rows;
    if (rows == 0) return Status::ok();
    const bool few = args.rows == Rows::invariant || rows <= few_rows;
    Inputs inputs;
    prepare(args, weight, few, inputs);
    if (rows > tile_rows_at_once && inputs.bf16 != nullptr && bf16_ == Bf16Way::tiles &&
        inputs.quant.codes == nullptr) {
        run_tiles(args, inputs);
        return Status::ok();
    }

    // Row blocks outside, panels inside: a thread's block of rows stays in its L2 while panels stream past it. Each
    // group of quantized weights is a task, so that the threads finish together, or two are, where that is the faster
    // way to multiply so many rows.
    const bool int8 = inputs.quant.codes != nullptr;
    const bool floats = inputs.f32 != nullptr;
    const int64_t row_bytes = round_up<int64_t>(args.x.columns, 32) * (int8 ? 1 : floats ? 4 : 2);
    const int64_t block_rows = few ? rows : rows_of_block(row_bytes, floats ? 96 : 32);
    const int64_t blocks = ceil_div(rows, block_rows);
    const int64_t task_groups = blocks * weight.panel_count() * panel_groups < 4 * pool_.threads()
                                    ? 1  // or some threads would have nothing to do
                                    : groups_of_task(weight, few, std::min(rows, block_rows), rows % block_rows);
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
