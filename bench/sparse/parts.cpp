#include "sparse/parts.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace rondo::bench {

namespace {

constexpr double tolerance = 2e-2;  // bf16 keys, values and weights; what is wrong is off by its own size

std::string text_of(const nlohmann::ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
    const auto number = value.get<double>();
    char text[32];
    std::snprintf(text, sizeof text, std::abs(number) < 100 ? "%.3g" : "%.0f", number);
    return text;
}

}  // namespace

void print_row(const nlohmann::ordered_json& row, bool first) {
    std::string keys, values;
    for (const auto& [key, value] : row.items()) {
        const std::string text = text_of(value);
        const size_t width = std::max<size_t>(key.size(), value.is_string() ? 15 : 7) + 2;
        keys += std::string(width - key.size(), ' ') + key;
        values += std::string(width - std::min(width, text.size()), ' ') + text;
    }
    if (first) std::printf("%s\n", keys.c_str());
    std::printf("%s\n", values.c_str());
    std::fflush(stdout);
}

void expect_small(double relative_error, const std::string& of) {
    if (relative_error < tolerance) return;
    std::fprintf(stderr, "bench_sparse: %s is wrong: relative error %g\n", of.c_str(), relative_error);
    std::exit(1);
}

std::vector<double> seconds_in_turn(int rounds, std::span<const std::function<void()>> works) {
    std::vector<std::vector<double>> seconds(works.size());
    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < works.size(); ++i) {
            const auto start = std::chrono::steady_clock::now();
            works[i]();
            seconds[i].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
    }
    std::vector<double> medians;
    for (std::vector<double>& each : seconds) {
        std::ranges::sort(each);
        medians.push_back(each[each.size() / 2]);
    }
    return medians;
}

}  // namespace rondo::bench
