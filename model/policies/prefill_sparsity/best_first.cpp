#include "model/policies/prefill_sparsity/best_first.hpp"

#include <bit>

namespace rondo {

namespace {

/// An integer that orders as GreaterValue does, for values that are not negative: lookups are left to the end.
uint64_t order_of(float value, int32_t item) {
    return uint64_t{std::bit_cast<uint32_t>(value)} << 32 | ~static_cast<uint32_t>(item);
}

int32_t item_of(uint64_t order) {
    return static_cast<int32_t>(~static_cast<uint32_t>(order));
}

}  // namespace

void keep_enough(std::vector<int32_t>& items, std::span<const float> value, std::span<const float> weight,
                 double wanted) {
    thread_local std::vector<uint64_t> orders;
    orders.clear();
    for (const int32_t item : items) orders.push_back(order_of(value[static_cast<size_t>(item)], item));
    auto first = orders.begin(),
         last = orders.end();  // what stands before `first` is kept, what stands after `last` not
    while (last - first > 1) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, std::greater<>());
        double sum = 0.0;
        for (auto order = first; order != middle; ++order) sum += weight[static_cast<size_t>(item_of(*order))];
        if (sum >= wanted) {
            last = middle;
        } else {
            wanted -= sum;
            first = middle;
        }
    }
    items.clear();
    for (auto order = orders.begin(); order != last; ++order) items.push_back(item_of(*order));
}

}  // namespace rondo
