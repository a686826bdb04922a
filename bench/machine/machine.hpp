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

/// GB/s at which `threads` threads read a gigabyte that was not read lately. Memory is laid out (huge pages) and shared
/// out (1 MiB tasks) as in the engine.
double read_rate(int threads, int repeat);

/// GFLOP/s of oneDNN's own threaded GEMM with weights in its favourite layout: rows × a set of a 0.5 B model's
/// matrices. 0 where it has none of that type for this processor.
double gemm_rate(DType type, int64_t rows, int threads, int repeat);

/// The rate that products are set beside: the greatest of oneDNN's (bf16, f32) and of loops of floats' and bf16's.
double product_ceiling(int64_t rows, int threads, int repeat);

/// GOP/s (two operations a multiply-add) of loops of one instruction, registers only; 0 where the processor has it not.
struct InstructionRates {
    double fma_f32 = 0.0;   ///< of the widest registers
    double dot_bf16 = 0.0;  ///< vdpbf16ps
    double dot_int8 = 0.0;  ///< vpdpbusd; with AVX2 alone vpmaddubsw, whose sums are widened after eight
};
InstructionRates instruction_rates(int threads, int repeat);

/// The same of loops of AMX tiles. `int8_scaled` has what weights with a scale for each 32 inputs ask for beside the
/// products: a tile takes 32 inputs in place of 64 in the same time, and its sums go through memory to be scaled.
struct TileRates {
    double bf16 = 0.0;
    double int8 = 0.0;
    double int8_scaled = 0.0;
};
TileRates tile_rates(int threads, int repeat);

/// GOP/s of the products of bytes in a loop with all else that a quantized type asks for beside them: the integers to
/// floats, times a weight's scale and an input's, for each 16 or 32 inputs, and the minimum's product. 0 with AVX-512
/// that has no VNNI.
double quant_mix_rate(DType type, int threads, int repeat);

/// GOP/s of the loop that bounds products by a type of weights: its own mix, or FMA, or for bf16 the fastest of tiles,
/// pairs and FMA. Weights in f16 are multiplied in floats.
double type_loop_rate(DType type, int threads, int repeat);

}  // namespace rondo::bench
