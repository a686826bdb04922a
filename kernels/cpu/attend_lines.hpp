#pragma once

#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::attend_lines on the CPU. A head's columns are gathered into atoms of their own once; then the rows of each
/// block attend to those and to the blocks their bands name. A column that lies in such a block is left out of the
/// gathered ones, so no key counts twice.
class AttendLines {
public:
    AttendLines(ThreadPool& pool, Bf16Way bf16)
        : pool_(pool), bf16_(bf16), scratch_(static_cast<size_t>(pool.threads())) {}
    Status run(const AttendArgs& args, const LineTables& lines);

private:
    struct PerThread {
        Scratch kernel;
        Scratch sums;
        Scratch keys;
        Scratch taken;
    };

    ThreadPool& pool_;
    Bf16Way bf16_;
    std::vector<PerThread> scratch_;  // by thread
    Scratch gathered_;                // atoms of all heads' columns
    Scratch column_blocks_;           // the block of each column
    Scratch tiles_;
};

}  // namespace rondo::cpu
