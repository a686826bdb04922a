#include "kernels/cpu/quant_pairing.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <new>

#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"

namespace rondo::cpu {
namespace {

constexpr int64_t paired_rows_min = 8;
constexpr int64_t rows = 24, columns = 512, groups = 4;  // of the product that is measured
constexpr int rounds = 12;                               // in each both ways take their turn; the least time counts

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

int64_t faster(DType type) {
    const auto weight_bytes = static_cast<size_t>(quant_layout(type).group_bytes(columns) * groups);
    const size_t x_bytes = activation_bytes(rows, columns);
    const Aligned weight(weight_bytes), x_memory(x_bytes), y(rows * groups * quant_group_rows * sizeof(float));
    const QuantActivations x = place_activations({x_memory.data, x_bytes}, rows, columns);
    QuantProduct product;
    product.type = type;
    product.outputs = product.y_stride = groups * quant_group_rows;
    product.columns = columns;
    product.storage = weight.data;
    product.group_end = groups;
    product.y = reinterpret_cast<float*>(y.data);
    std::array<double, 2> least{1e9, 1e9};
    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < least.size(); ++i) {
            product.groups_at_once = static_cast<int64_t>(i) + 1;
            const auto start = std::chrono::steady_clock::now();
            multiply_vnni(product, x);
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            least[i] = std::min(least[i], took.count());
        }
    }
    return least[1] < least[0] ? 2 : 1;
}

}  // namespace

int64_t groups_at_once(DType type, int64_t rows) {
    if (rows < paired_rows_min || !cpu_features().avx512_vnni) return 1;
    int64_t found = 1;
    with_quant_type(type, [&]<DType Type>() {
        static const int64_t best = faster(Type);
        found = best;
    });
    return found;
}

}  // namespace rondo::cpu
