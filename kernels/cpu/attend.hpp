#pragma once

#include <vector>

#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::attend on the CPU: attention of each row over the paged keys of its sequence, exact, with an online softmax.
///
/// The unit of work is (sequence, KV head, tile of rows, split of keys): all query heads of a KV head share each block
/// of keys that is read. Keys are split at fixed multiples of `split_keys`, so how a row is summed depends on its own
/// length alone and not on the batch or on the threads; the splits of a row are combined in order at the end.
class Attend {
public:
    explicit Attend(ThreadPool& pool) : pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {}
    Status run(const AttendArgs& args);

private:
    struct PerThread {
        Scratch kernel;
        Scratch sums;
    };

    ThreadPool& pool_;
    std::vector<PerThread> scratch_;  // by thread
    Scratch partials_;                // weighted sums, maxima and totals of all split lines
    Scratch plan_;
};

}  // namespace rondo::cpu
