#include "model/attention/policies/prefill_sparsity/best_first.hpp"

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

/// Keeps the fewest of some items by halving.
void keep_enough_of(std::vector<uint64_t>& orders, std::span<const float> weight, double wanted) {
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
    orders.erase(last, orders.end());
}

/// Values from the least to the greatest in steps of one width, so that a greater one never stands on a lower step.
struct Steps {
    static constexpr int count = 256;
    float least, greatest, width;

    int of(float value) const { return std::min(count - 1, static_cast<int>((value - least) / width)); }
};

Steps steps_of(std::span<const int32_t> items, std::span<const float> value) {
    float least = value[static_cast<size_t>(items.front())], greatest = least;
    for (const int32_t item : items) {
        least = std::min(least, value[static_cast<size_t>(item)]);
        greatest = std::max(greatest, value[static_cast<size_t>(item)]);
    }
    const float width = (greatest - least) / Steps::count;
    return {least, greatest, width > 0.0F ? width : 1.0F};
}

}  // namespace

void keep_enough(std::vector<int32_t>& items, std::span<const float> value, std::span<const float> weight,
                 double wanted) {
    if (items.empty()) return;
    const Steps steps = steps_of(items, value);
    const auto step_of = [&](int32_t item) { return steps.of(value[static_cast<size_t>(item)]); };
    double weights[Steps::count] = {};
    for (const int32_t item : items) weights[step_of(item)] += weight[static_cast<size_t>(item)];
    int last = steps.of(steps.greatest);  // the step on which there is enough
    while (last > 0 && weights[last] < wanted) wanted -= weights[last--];
    thread_local std::vector<uint64_t> orders;  // of that step
    orders.clear();
    size_t kept = 0;
    for (const int32_t item : items) {
        const int step = step_of(item);
        if (step > last) items[kept++] = item;
        if (step == last) orders.push_back(order_of(value[static_cast<size_t>(item)], item));
    }
    items.resize(kept);
    keep_enough_of(orders, weight, wanted);
    for (const uint64_t order : orders) items.push_back(item_of(order));
}

}  // namespace rondo
