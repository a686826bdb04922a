#include "cli/measure/attention/top_lines.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/attention/policies/prefill_sparsity/line_sums.hpp"

namespace rondo::cli::attention {

namespace {

/// Of two ascending lists, as far as they lie below `end`.
struct Common {
    size_t both = 0, either = 0;

    void add(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int64_t end) {
        auto in_a = a.begin(), in_b = b.begin();
        const auto more = [end](auto at, const auto& list) { return at != list.end() && *at < end; };
        while (more(in_a, a) || more(in_b, b)) {
            const bool has_a = more(in_a, a), has_b = more(in_b, b);
            const bool takes_a = has_a && (!has_b || *in_a <= *in_b), takes_b = has_b && (!has_a || *in_b <= *in_a);
            ++either;
            if (takes_a && takes_b) ++both;
            if (takes_a) ++in_a;
            if (takes_b) ++in_b;
        }
    }
};

}  // namespace

TopLines top_lines(const ChunkShape& chunk, const SampledRows& rows) {
    const auto keys = static_cast<size_t>(chunk.keys());
    std::vector<double> sums(2 * keys);  // columns, then diagonals
    double total = 0.0;
    for (size_t r = 0; r < rows.rows.size(); ++r) {
        const SampledRow row(chunk, rows, r);
        const auto own = static_cast<size_t>(row.key);
        for (size_t key = 0; key <= own; ++key) {
            const double weight = static_cast<double>(row.weights[key]);
            sums[key] += weight;
            sums[keys + own - key] += weight;
            total += weight;
        }
    }
    TopLines top;
    top.keys = chunk.keys();
    if (!std::isfinite(total)) return top;  // there is no order among what is no number
    std::vector<int32_t> order(sums.size());
    std::iota(order.begin(), order.end(), 0);
    const auto chosen = static_cast<std::ptrdiff_t>((sums.size() + 9) / 10);
    const auto is_before = [&](int32_t a, int32_t b) {
        const double of_a = sums[static_cast<size_t>(a)], of_b = sums[static_cast<size_t>(b)];
        return of_a != of_b ? of_a > of_b : a < b;
    };
    std::nth_element(order.begin(), order.begin() + chosen - 1, order.end(), is_before);
    std::vector<uint8_t> is_chosen(sums.size());
    for (auto line = order.begin(); line != order.begin() + chosen; ++line) is_chosen[static_cast<size_t>(*line)] = 1;
    for (size_t line = 0; line < is_chosen.size(); ++line) {
        if (is_chosen[line] == 0) continue;
        (line < keys ? top.columns : top.diagonals).push_back(static_cast<int32_t>(line < keys ? line : line - keys));
    }
    double held = 0.0;
    for (size_t r = 0; r < rows.rows.size(); ++r) {
        const SampledRow row(chunk, rows, r);
        const auto own = static_cast<size_t>(row.key);
        for (size_t key = 0; key <= own; ++key) {
            if (is_chosen[key] != 0 || is_chosen[keys + own - key] != 0) held += static_cast<double>(row.weights[key]);
        }
    }
    top.share = total > 0.0 ? held / total : 0.0;
    return top;
}

std::optional<double> overlap(const TopLines& before, const TopLines& now) {
    Common common;
    common.add(before.columns, now.columns, before.keys);
    common.add(before.diagonals, now.diagonals, before.keys);
    if (common.either == 0) return std::nullopt;
    return static_cast<double>(common.both) / static_cast<double>(common.either);
}

}  // namespace rondo::cli::attention
