// cuBLASLt's product as a plain loop: the library's kernels are not emulated.

#include "kernels/cuda/gemm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <span>
#include <vector>

#include "tests/emulated/launch.hpp"

namespace rondo::cuda {
namespace {

float load(const void* data, DType type, int64_t i) {
    if (type == DType::f32) return static_cast<const float*>(data)[i];
    if (type == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    return __half2float(static_cast<const __half*>(data)[i]);
}

void store(void* data, DType type, int64_t i, float value) {
    if (type == DType::f32) {
        static_cast<float*>(data)[i] = value;
    } else if (type == DType::bf16) {
        static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
    } else {
        static_cast<__half*>(data)[i] = __float2half_rn(value);
    }
}

std::vector<float> load_rows(const void* data, DType type, int64_t rows, int64_t columns, int64_t stride) {
    std::vector<float> out;
    out.reserve(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) out.push_back(load(data, type, r * stride + c));
    }
    return out;
}

float dot(std::span<const float> a, std::span<const float> b) {
    constexpr size_t lanes = 8;
    double sums[lanes] = {};
    for (size_t i = 0; i < a.size(); ++i) sums[i % lanes] += static_cast<double>(a[i]) * b[i];
    double sum = 0.0;
    for (const double one : sums) sum += one;
    return static_cast<float>(sum);
}

void multiply_now(const Product& p) {
    const std::vector<float> x = load_rows(p.x, p.type, p.m, p.k, p.x_stride);
    const std::vector<float> w = load_rows(p.w, p.type, p.n, p.k, p.k);
    const auto k = static_cast<size_t>(p.k);
    for (int64_t m = 0; m < p.m; ++m) {
        const std::span row(x.data() + static_cast<size_t>(m) * k, k);
        for (int64_t n = 0; n < p.n; ++n) {
            const int64_t at = m * p.out_stride + n;
            const float product = dot(row, {w.data() + static_cast<size_t>(n) * k, k});
            store(p.out, p.out_type, at, p.accumulate ? product + load(p.out, p.out_type, at) : product);
        }
    }
}

class PlainGemm final : public Gemm {
public:
    Result<bool> multiply(const Product& product, cudaStream_t stream) override {
        (void)emulated::enqueue_work(stream, [product] { multiply_now(product); });
        return true;
    }
};

}  // namespace

Status Gemm::available() {
    return Status::ok();
}

Result<std::unique_ptr<Gemm>> Gemm::create(int) {
    return std::unique_ptr<Gemm>(std::make_unique<PlainGemm>());
}

}  // namespace rondo::cuda
