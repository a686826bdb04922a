#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "config/checked.hpp"
#include "kernels/cpu/matmul_parts.hpp"
#include "kernels/cpu/quant_layout.hpp"

/// Many rows by a weight in tiles. Tiles exist where AVX-512 with bf16 does.
namespace rondo::cpu {

namespace {

constexpr int64_t tile_block_rows = 512;  // of which some inputs at a time stay in L2
constexpr int64_t tile_stretch_numbers = tile_stretch * panel_outputs;
constexpr int64_t tile_task_panels = 4;  // at most, whose sums stay in L2 beside them
constexpr int64_t tile_copy_rows = 128;  // from here on a panel is copied so that its tiles fill L1

const uint16_t* dense_panel(const PackedWeight::Segment& segment, int64_t panel) {
    return reinterpret_cast<const uint16_t*>(segment.dense()->panel(segment.storage, panel));
}

}  // namespace

int64_t tile_task_bytes(int64_t rows) {
    return 2 * tile_stretch_numbers * static_cast<int64_t>(sizeof(uint16_t)) +
           tile_task_panels * tile_sums(std::min(rows, tile_block_rows)) * static_cast<int64_t>(sizeof(float));
}

/// Some panels of the whole weight, whose inputs some rows meet.
struct Matmul::TileTask {
    const MatmulArgs& args;
    const PackedWeight& weight;
    TileRows x;
    int64_t row_begin;  // of x in the product
    int64_t panel_begin, panel_end;
};

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

}  // namespace rondo::cpu
