#pragma once

#include <vector>

#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::score_blocks on the CPU. The unit of work is a KV head with its query heads, so that its keys are read once.
class ScoreBlocks {
public:
    explicit ScoreBlocks(ThreadPool& pool) : pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {}
    Status run(const Tensor& out, const ScoreArgs& args);

private:
    ThreadPool& pool_;
    std::vector<Scratch> scratch_;  // by thread
};

}  // namespace rondo::cpu
