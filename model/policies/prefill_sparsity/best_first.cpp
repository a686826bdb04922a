#include "model/policies/prefill_sparsity/best_first.hpp"

namespace rondo {

void keep_enough(std::vector<int32_t>& items, std::span<const float> value, std::span<const float> weight,
                 double wanted) {
    auto first = items.begin(), last = items.end();  // what stands before `first` is kept, what stands after `last` not
    while (last - first > 1) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, GreaterValue{value});
        double sum = 0.0;
        for (auto item = first; item != middle; ++item) sum += weight[static_cast<size_t>(*item)];
        if (sum >= wanted) {
            last = middle;
        } else {
            wanted -= sum;
            first = middle;
        }
    }
    items.erase(last, items.end());
}

}  // namespace rondo
