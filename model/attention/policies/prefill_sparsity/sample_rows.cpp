#include <numeric>

#include "config/mix_bits.hpp"
#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {
namespace {

/// One of SplitMix64's numbers.
uint64_t mixed(uint64_t x) {
    return mix_bits(x + mix_step);
}

}  // namespace

std::vector<int32_t> sample_rows(int64_t rows, int count, uint64_t seed) {
    std::vector<int32_t> sample;
    if (rows <= 0 || count <= 0) return sample;
    if (rows <= count) {
        sample.resize(static_cast<size_t>(rows));
        std::iota(sample.begin(), sample.end(), 0);
        return sample;
    }
    sample.reserve(static_cast<size_t>(count));
    const uint64_t key = mixed(seed);  // so that neighbouring seeds do not share draws
    for (int64_t stretch = 0; stretch + 1 < count; ++stretch) {
        const int64_t begin = stretch * rows / count;
        const auto length = static_cast<uint64_t>((stretch + 1) * rows / count - begin);
        const uint64_t draw = mixed(key + static_cast<uint64_t>(stretch)) % length;
        sample.push_back(static_cast<int32_t>(begin + static_cast<int64_t>(draw)));
    }
    sample.push_back(static_cast<int32_t>(rows - 1));
    return sample;
}

}  // namespace rondo
