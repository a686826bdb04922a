#include "cli/measure/eval/python_random.hpp"

#include <array>
#include <bit>

namespace rondo::cli::eval {

namespace {

constexpr size_t state_words = std::mt19937::state_size;

/// Fills the twister's state by the "init by array" of its authors, which the standard library does not offer. Python's
/// key is the seed's 32-bit digits, least first, without leading zeros.
class ArraySeed {
public:
    using result_type = uint32_t;

    explicit ArraySeed(uint64_t seed)
        : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, digits_(seed >> 32 != 0 ? 2 : 1) {}

    template <class Iterator>
    void generate(Iterator begin, Iterator) {
        std::array<uint32_t, state_words> state;
        state[0] = 19650218;
        for (size_t i = 1; i < state_words; ++i) {
            state[i] = 1812433253U * folded(state[i - 1]) + static_cast<uint32_t>(i);
        }
        size_t at = 1;
        const auto step = [&] {
            if (++at < state_words) return;
            state[0] = state.back();
            at = 1;
        };
        for (size_t i = 0; i < state_words; ++i, step()) {
            const size_t digit = i % digits_;
            state[at] = (state[at] ^ (folded(state[at - 1]) * 1664525U)) + key_[digit] + static_cast<uint32_t>(digit);
        }
        for (size_t i = 1; i < state_words; ++i, step()) {
            state[at] = (state[at] ^ (folded(state[at - 1]) * 1566083941U)) - static_cast<uint32_t>(at);
        }
        state[0] = 0x80000000U;
        for (const uint32_t word : state) *begin++ = word;
    }

private:
    static uint32_t folded(uint32_t word) { return word ^ (word >> 30); }

    std::array<uint32_t, 2> key_;
    size_t digits_;
};

std::mt19937 seeded(uint64_t seed) {
    ArraySeed sequence(seed);
    return std::mt19937(sequence);
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) : engine_(seeded(seed)) {}

double PythonRandom::random() {
    const auto high = static_cast<uint32_t>(engine_()) >> 5;
    const auto low = static_cast<uint32_t>(engine_()) >> 6;
    return (high * 0x1p26 + low) * 0x1p-53;
}

uint32_t PythonRandom::getrandbits(int count) {
    return static_cast<uint32_t>(engine_()) >> (32 - count);
}

uint32_t PythonRandom::below(uint32_t bound) {
    const int bits = static_cast<int>(std::bit_width(bound));
    uint32_t drawn = getrandbits(bits);
    while (drawn >= bound) drawn = getrandbits(bits);
    return drawn;
}

int PythonRandom::randint(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint32_t>(high - low) + 1));
}

size_t PythonRandom::weighted(std::span<const double> weights) {
    double total = 0.0;
    for (const double weight : weights) total += weight;
    const double point = random() * total;
    double sum = 0.0;
    for (size_t i = 0; i + 1 < weights.size(); ++i) {
        sum += weights[i];
        if (point < sum) return i;
    }
    return weights.size() - 1;
}

}  // namespace rondo::cli::eval
