#include "kernels/cpu/quant_ways.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <new>
#include <optional>

#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/quant_layout.hpp"

namespace rondo::cpu {
namespace {

/// A range of row counts begins with `begin`, and is measured with `measured` rows. Below the first range memory bounds
/// a product.
struct Range {
    int64_t begin;
    int64_t measured;
};
constexpr Range ranges[] = {{8, 16}, {24, 24}, {48, 96}};
std::optional<QuantWay> forced;
/// As wide as a large model's inputs, whose rows the nearest cache cannot hold and keeps in the same few places.
constexpr int64_t columns = 8192;
constexpr int64_t groups = 2;
constexpr int rounds = 4;  // in each every way takes its turn; the least time counts

/// Zeroed memory that begins with a cache line.
struct Aligned {
    explicit Aligned(size_t bytes) : data(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64}))) {
        std::fill_n(data, bytes, std::byte{0});
    }
    ~Aligned() { ::operator delete[](data, std::align_val_t{64}); }
    Aligned(const Aligned&) = delete;
    Aligned& operator=(const Aligned&) = delete;
    std::byte* data;
};

QuantWay fastest(DType type, int64_t rows) {
    const auto weight_bytes = static_cast<size_t>(quant_layout(type).group_bytes(columns) * groups);
    const size_t x_bytes = std::max(activation_bytes(rows, columns), activation_bytes(rows, columns, strip_rows));
    const auto y_bytes = static_cast<size_t>(rows * groups * quant_group_rows) * sizeof(float);
    const Aligned weight(weight_bytes), x_memory(x_bytes), y(y_bytes);
    const Aligned wide(static_cast<size_t>(wide_bytes(type, columns, rows)));
    QuantProduct product;
    product.type = type;
    product.outputs = product.y_stride = groups * quant_group_rows;
    product.columns = columns;
    product.storage = weight.data;
    product.group_end = groups;
    product.y = reinterpret_cast<float*>(y.data);
    product.wide = wide.data;
    constexpr std::array ways{QuantWay::alone, QuantWay::in_pairs, QuantWay::widened};
    std::array<double, ways.size()> least{1e9, 1e9, 1e9};
    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < ways.size(); ++i) {
            product.way = ways[i];
            const int64_t side_by_side = ways[i] == QuantWay::widened ? strip_rows : 1;
            const QuantActivations x = place_activations({x_memory.data, x_bytes}, rows, columns, side_by_side);
            const auto start = std::chrono::steady_clock::now();
            multiply_vnni(product, x);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            least[i] = std::min(least[i], took.count());
        }
    }
    return ways[static_cast<size_t>(std::ranges::min_element(least) - least.begin())];
}

template <DType Type, size_t At>
QuantWay way_of() {
    static const QuantWay way = fastest(Type, ranges[At].measured);
    return way;
}

}  // namespace

void override_quant_way_for_test(std::optional<QuantWay> way) {
    forced = way;
}

QuantWay quant_way(DType type, int64_t rows) {
    if (!cpu_features().avx512_vnni) return QuantWay::alone;
    if (forced) return *forced;
    if (rows < ranges[0].begin) return QuantWay::alone;
    QuantWay way = QuantWay::alone;
    with_quant_type(type, [&]<DType Type>() {
        way = rows < ranges[1].begin   ? way_of<Type, 0>()
              : rows < ranges[2].begin ? way_of<Type, 1>()
                                       : way_of<Type, 2>();
    });
    return way;
}

}  // namespace rondo::cpu
