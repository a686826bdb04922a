#include "model/attention/policies/prefill_sparsity/best_first.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace rondo {
namespace {

/// What sorting and adding up keeps, ascending.
std::vector<int32_t> naive_enough(std::vector<int32_t> items, std::span<const float> value,
                                  std::span<const float> weight, double wanted) {
    std::ranges::sort(items, GreaterValue{value});
    size_t kept = items.empty() ? 0 : 1;
    for (double sum = 0.0; kept < items.size(); ++kept) {
        sum += weight[static_cast<size_t>(items[kept - 1])];
        if (sum >= wanted) break;
    }
    items.resize(kept);
    std::ranges::sort(items);
    return items;
}

std::vector<int32_t> enough(std::vector<int32_t> items, std::span<const float> value, std::span<const float> weight,
                            double wanted) {
    keep_enough(items, value, weight, wanted);
    std::ranges::sort(items);
    return items;
}

enum class Values { spread, few, equal, far_apart, tiny };

float value_of(Values kind, std::mt19937& random) {
    const auto uniform = static_cast<float>(random() % 100000) / 100000.0F;
    switch (kind) {
        case Values::spread:
            return uniform;
        case Values::few:
            return static_cast<float>(random() % 4);
        case Values::equal:
            return 0.25F;
        case Values::far_apart:  // nearly all on the lowest step
            return std::exp(80.0F * uniform - 60.0F);
        case Values::tiny:
            return static_cast<float>(random() % 9) * std::numeric_limits<float>::denorm_min();
    }
    return 0.0F;
}

TEST(BestFirst, KeepsWhatSortingKeeps) {
    std::mt19937 random(5);
    for (const Values kind : {Values::spread, Values::few, Values::equal, Values::far_apart, Values::tiny}) {
        for (int round = 0; round < 200; ++round) {
            const size_t all = 1 + random() % (round < 150 ? 40 : 4000);
            std::vector<float> value(all), weight(all);
            std::vector<int32_t> items;
            double total = 0.0;
            for (size_t i = 0; i < all; ++i) {
                value[i] = value_of(kind, random);
                weight[i] = static_cast<float>(random() % 64) / 64.0F;  // sums are exact in any order
                if (random() % 4 == 0) continue;
                items.push_back(static_cast<int32_t>(i));
                total += weight[i];
            }
            for (const double wanted : {0.0, 0.5, std::floor(total / 3), total, total + 1.0}) {
                ASSERT_EQ(enough(items, value, weight, wanted), naive_enough(items, value, weight, wanted))
                    << "kind " << static_cast<int>(kind) << ", " << items.size() << " items, wanted " << wanted
                    << " of " << total;
            }
        }
    }
}

}  // namespace
}  // namespace rondo
