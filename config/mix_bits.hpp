#pragma once

#include <cstdint>

namespace rondo {

/// A bijection of 64 bits in which each input bit reaches each output bit (the finalizer of SplitMix64).
constexpr uint64_t mix_bits(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

/// SplitMix64's step: odd, so that a counter visits every state.
inline constexpr uint64_t mix_step = 0x9E3779B97F4A7C15U;

}  // namespace rondo
