#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/dtype.hpp"

/// What every benchmark sets its figures beside: what this machine can do, measured in the same run.
namespace rondo::bench {

/// Seconds of the median of `repeat` calls after one that does not count.
template <class F>
double seconds_median(int repeat, F&& work) {
    std::vector<double> seconds;
    for (int i = 0; i <= repeat; ++i) {
        const auto start = std::chrono::steady_clock::now();
        work();
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin() + 1, seconds.end());
    return seconds[1 + static_cast<size_t>(repeat) / 2];
}

/// GB/s at which `threads` threads read a gigabyte that was not read lately, as the engine lays memory out (huge pages)
/// and shares it out (1 MiB tasks).
double read_rate(int threads, int repeat);

/// GFLOP/s of oneDNN's own threaded GEMM with weights in its favourite layout: rows × a set of a 0.5 B model's
/// matrices.
double gemm_rate(DType type, int64_t rows, int threads, int repeat);

}  // namespace rondo::bench
