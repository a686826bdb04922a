#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "config/result.hpp"

namespace rondo::cli::eval {

/// What dialogues are for: settings are chosen by those of development, and judged by those of reports alone. Their
/// seeds cannot meet, nor those of training (48 random bits) and of the tokenizer (below 600), but by a chance in 10^8.
enum class SeedUse { development, report };
inline constexpr std::array<std::string_view, 2> seed_use_names = {"development", "report"};

struct SeedRange {
    uint64_t first = 0, count = 0;
    bool holds(uint64_t seed) const { return seed >= first && seed - first < count; }
};
constexpr SeedRange seeds_of(SeedUse use) {
    return use == SeedUse::development ? SeedRange{1'000'000, 1'000'000} : SeedRange{20'000'000, 1'000'000};
}

/// Refuses seeds that are for something else, and more dialogues than there are seeds.
Status check_seeds(SeedUse use, uint64_t first, uint64_t dialogues);

}  // namespace rondo::cli::eval
