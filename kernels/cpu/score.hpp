#pragma once

#include <vector>

#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::score_keys and Ops::score_rows on the CPU. The unit of work is up to 32 lines (a row in one query head) of one
/// KV head against all keys, so that the keys are read once for all of them.
class Score {
public:
    explicit Score(ThreadPool& pool) : pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {}
    Status keys(const Tensor& out, const ScoreArgs& args);
    Status rows(const ScoreArgs& args, const Ops::ConsumeRows& consume);

private:
    struct PerThread {
        Scratch kernel;
        Scratch weights;
    };

    ThreadPool& pool_;
    std::vector<PerThread> scratch_;  // by thread
    Scratch partials_;
};

}  // namespace rondo::cpu
