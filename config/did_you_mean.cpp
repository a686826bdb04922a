#include "config/did_you_mean.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace rondo {

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = std::exchange(row[0], i + 1);
        for (size_t j = 0; j < b.size(); ++j) {
            const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view given, std::span<const std::string_view> names) {
    constexpr size_t near = 2, compared_max = 64;
    if (given.size() > compared_max) return {};
    std::string_view best;
    size_t best_distance = near + 1;
    for (const std::string_view name : names) {
        const size_t distance = edit_distance(given, name);
        if (distance < best_distance && 2 * distance <= name.size()) {
            best = name;
            best_distance = distance;
        }
    }
    return best.empty() ? "" : "; did you mean " + std::string(best) + "?";
}

}  // namespace rondo
