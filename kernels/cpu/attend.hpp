#pragma once

#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/attend_tile.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::attend and Ops::attend_selected on the CPU: attention of each row over paged keys, with an online softmax.
///
/// The unit of work is (sequence, KV head, tile of rows, split of keys): all query heads of a KV head share each block
/// of keys that is read. Keys are split at fixed multiples of atoms, and the splits of a row are combined in order at
/// the end. So how a row is summed depends on its own keys alone, not on the batch or on the threads.
class Attend {
public:
    Attend(ThreadPool& pool, Bf16Way bf16) : pool_(pool), bf16_(bf16), scratch_(static_cast<size_t>(pool.threads())) {}
    /// Without `selected` every row attends to all keys it sees.
    Status run(const AttendArgs& args, const AttendedKeys* selected = nullptr, const std::byte* atoms = nullptr);

private:
    struct PerThread {
        Scratch kernel;
        Scratch sums;
        Scratch keys;
    };

    ThreadPool& pool_;
    Bf16Way bf16_;
    std::vector<PerThread> scratch_;  // by thread
    Scratch partials_;                // weighted sums, maxima and totals of all split queries
    Scratch plan_;
};

}  // namespace rondo::cpu
