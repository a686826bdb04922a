#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>

namespace rondo::cli::eval {

/// The numbers that CPython 3.11's random.Random(seed) draws, so that a seed stands for the same dialogue here as it
/// does for the trainer. Methods bear the names of Python's where they do the same.
class PythonRandom {
public:
    explicit PythonRandom(uint64_t seed);

    /// From 0 to just below 1, 53 bits.
    double random();
    /// 1 to 32 of them.
    uint32_t getrandbits(int count);
    /// From 0 to below `bound`, which is not 0.
    uint32_t below(uint32_t bound);
    /// Both ends included.
    int randint(int low, int high);
    /// An index, each as often as its weight says: random.choices with k = 1.
    size_t weighted(std::span<const double> weights);
    /// An element of a list that is not empty.
    template <class List>
    decltype(auto) choice(const List& list) {
        return list[below(static_cast<uint32_t>(std::size(list)))];
    }

private:
    std::mt19937 engine_;
};

}  // namespace rondo::cli::eval
