#pragma once

#include <cstdint>

#include "kernels/cpu/thread_pool.hpp"
#include "machine/machine.hpp"

/// What loops of instructions share.
namespace rondo::bench {

constexpr int64_t loop_steps = 200'000;

/// Keeps what a loop computed from being dropped.
template <class T>
void use(const T& value) {
    __asm__ volatile("" : : "m"(value) : "memory");
}

/// GOP/s of `loop` on every thread, each of whose steps does `operations`. Each thread gets many loops: with one each,
/// a thread that wakes early would take another's too.
inline double loop_rate(int threads, int repeat, double operations, void (*loop)()) {
    cpu::ThreadPool pool(threads);
    const int64_t loops = 16 * threads;
    const double seconds = seconds_median(repeat, [&] { pool.run(loops, [&](int64_t, int) { loop(); }); });
    return operations * static_cast<double>(loop_steps * loops) / seconds / 1e9;
}

/// The rates of byte products with AVX2 alone, as instruction_rates and quant_mix_rate give them.
double byte_pair_rate(int threads, int repeat);
double byte_pair_mix_rate(DType type, int threads, int repeat);

}  // namespace rondo::bench
