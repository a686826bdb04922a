#pragma once

#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/scratch.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// Ops::score_keys, Ops::score_rows and Ops::score_selected on the CPU. A query is a row in one query head. The unit of
/// work of the first two is up to 32 queries of one KV head against all keys, which are read once for all of them.
class Score {
public:
    Score(ThreadPool& pool, Bf16Way bf16) : pool_(pool), bf16_(bf16), scratch_(static_cast<size_t>(pool.threads())) {}
    Status keys(const Tensor& out, const ScoreArgs& args);
    Status rows(const ScoreArgs& args, const Ops::ConsumeRows& consume);
    Status selected(const Tensor& out, const ScoreArgs& args, const AttendedKeys& selected, const std::byte* atoms);

private:
    struct PerThread {
        Scratch kernel;
        Scratch weights{Scratch::Pages::huge};
        Scratch keys;
    };

    struct Parts;
    void sum_part(const ScoreArgs& args, const Parts& parts, int64_t head, int64_t part, int thread, float* sums);
    void give_back();

    ThreadPool& pool_;
    Bf16Way bf16_;
    std::vector<PerThread> scratch_;  // by thread
    Scratch partials_;                // of score_keys: sums of some parts
};

}  // namespace rondo::cpu
