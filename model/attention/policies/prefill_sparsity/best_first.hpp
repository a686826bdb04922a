#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rondo {

/// Greater values first, the earlier one of equals: one order, whatever the algorithm that sorts.
struct GreaterValue {
    std::span<const float> values;
    bool operator()(int32_t a, int32_t b) const {
        const float value_a = values[static_cast<size_t>(a)], value_b = values[static_cast<size_t>(b)];
        return value_a != value_b ? value_a > value_b : a < b;
    }
};

/// Cuts `items` to the fewest that, taken in the order of `value`, weigh `wanted` together, but one at least; all when
/// none do. They come in no order. No value is negative or infinite. Steps of values and halving instead of sorting,
/// which would cost more than reading the weights.
void keep_enough(std::vector<int32_t>& items, std::span<const float> value, std::span<const float> weight,
                 double wanted);

}  // namespace rondo
