#pragma once

#include <vector>

#include "config/result.hpp"
#include "kernels/backend.hpp"
#include "kernels/cpu/gemm_amx.hpp"
#include "kernels/cpu/packed_weight.hpp"
#include "kernels/cpu/product_out.hpp"
#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::matmul on the CPU: brings the rows into the forms the weight's kernels read, then hands panels to the threads.
///   f32, f16    in f32 (rows_panel), any number of rows
///   bf16        as the device does: in tiles, in pairs (bf16_rows_panel) or in f32 (rows_panel), any number of rows
///   quantized   int8 for any number of rows, many with a lone row's bits; with tiles many are unpacked to bf16
/// Owns scratch, so one product at a time.
class Matmul {
public:
    Matmul(ThreadPool& pool, Bf16Way bf16);
    Status run(const MatmulArgs& args);
    /// Address space for rows in all these forms; its pages come with use.
    Status reserve(int64_t rows, int64_t inputs);

private:
    struct Inputs;
    struct TileTask;
    struct TileWork;
    /// Some inputs, from `begin` on, by a panel of the whole weight.
    struct TileStretch {
        int64_t begin, panel;
    };
    bool multiplies_int8(const PackedWeight::Segment& segment, bool few) const;
    bool multiplies_bf16(const PackedWeight::Segment& segment) const;
    QuantWay way_of(const PackedWeight& weight, bool few, int64_t rows, int64_t last_rows) const;
    void prepare(const MatmulArgs& args, const PackedWeight& weight, bool few, QuantWay way, Inputs& inputs);
    void multiply_panel(const MatmulArgs& args, const PackedWeight::Segment& segment, int64_t panel, int64_t row_begin,
                        int64_t row_end, const Inputs& inputs);
    TileStretch stretch_from(const TileTask& task, TileStretch at) const;
    static TileWork work_for(const TileTask& task, TileStretch at, uint16_t* tiles);
    static void add_stretch(const TileTask& task, TileStretch at, uint16_t* tiles, float* sums, const TileWork& beside);
    void multiply_tiles(const TileTask& task, const Inputs& inputs, Scratch& memory);
    void run_tiles(const MatmulArgs& args, const Inputs& inputs);
    void multiply_groups(const MatmulArgs& args, const PackedWeight::Segment& segment, int64_t begin, int64_t end,
                         int64_t row_begin, int64_t row_end, const Inputs& inputs, Scratch& scratch);

    ThreadPool& pool_;
    const Bf16Way bf16_;  ///< never `measured`
    Scratch bf16_rows_, f32_rows_, quant_rows_;
    std::vector<Scratch> unpacked_;  // by thread: stretches of panels as bf16, or widened groups, and sums
};

}  // namespace rondo::cpu
