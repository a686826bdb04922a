#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace rondo::cli::multi_turn {

/// Random numbers that are the same wherever a seed is used: the standard fixes its engines, not its distributions.
/// `stream` tells the uses of one seed apart.
class Seeded {
public:
    Seeded(uint64_t seed, uint64_t stream) {
        std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
        engine_.seed(mixed);
    }

    /// From 0 to just below 1.
    double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
    /// Both ends included.
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(unit() * static_cast<double>(high - low + 1));
    }
    double normal() {
        const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
        return radius * std::cos(2.0 * std::numbers::pi * unit());
    }
    double exponential(double rate) { return -std::log(1.0 - unit()) / rate; }

private:
    std::mt19937_64 engine_;
};

}  // namespace rondo::cli::multi_turn
