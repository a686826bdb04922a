#include <type_traits>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int warps = 8;           // of a block; a warp makes one column of out
constexpr int tile_rows = 4;       // rows of x for which one pass over a row of w serves
constexpr int64_t tiles_max = 64;  // that blocks side by side have; each goes on with those behind

/// out [m, n], x [m, k], w [n, k], bias [n] or none. Lane l adds up the products at l, l + 32, … of a row, then the
/// lanes meet: an order that k alone decides, whatever the other rows are. The tile's rows share loads, never sums.
/// Blocks of the same columns stand side by side, so that one reads their weights from memory and the others from the
/// cache. A lane asks for several of its elements before it adds up the first.
template <int rows, class Weight, class Activation>
__global__ void __launch_bounds__(warps * 32)
    matmul_rows_kernel(Rows2d out, const Activation* x, int64_t x_stride, const Weight* w, const float* bias,
                       bool accumulate, int64_t m, int64_t n, int64_t k, int tiles) {
    constexpr int ahead = rows == 1 ? 8 : 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t column = int64_t{blockIdx.x / tiles} * warps + threadIdx.x / 32;
    if (column >= n) return;  // a whole warp, and no barrier follows
    const Weight* weights = w + column * k;
    for (int64_t first = int64_t{blockIdx.x % tiles} * rows; first < m; first += int64_t{tiles} * rows) {
        const Activation* of_row[rows];
#pragma unroll
        for (int r = 0; r < rows; ++r)  // beyond the end the last row again, not stored
            of_row[r] = x + (first + r < m ? first + r : m - 1) * x_stride;
        float sums[rows] = {};
        int64_t c = lane;
        for (; c + 32 * (ahead - 1) < k; c += 32 * ahead) {
            float weight[ahead], value[rows][ahead];
#pragma unroll
            for (int i = 0; i < ahead; ++i) weight[i] = to_float(weights[c + 32 * i]);
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int i = 0; i < ahead; ++i) value[r][i] = to_float(of_row[r][c + 32 * i]);
#pragma unroll
            for (int i = 0; i < ahead; ++i)
#pragma unroll
                for (int r = 0; r < rows; ++r) sums[r] = fmaf(weight[i], value[r][i], sums[r]);
        }
        for (; c < k; c += 32) {
            const float weight = to_float(weights[c]);
#pragma unroll
            for (int r = 0; r < rows; ++r) sums[r] = fmaf(weight, to_float(of_row[r][c]), sums[r]);
        }
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            float sum = over_warp<Sum>(sums[r]);
            if (lane != 0 || first + r >= m) continue;
            if (bias != nullptr) sum += bias[column];
            if (accumulate) sum += out.load(first + r, column);
            out.store(first + r, column, sum);
        }
    }
}

/// out [rows, columns] = x [rows, columns] + bias [columns] or none, each in its own type. One block a row. In place is
/// allowed.
__global__ void add_bias_kernel(Rows2d out, Rows2d x, const float* bias, int64_t columns) {
    const int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        out.store(row, c, x.load(row, c) + (bias != nullptr ? bias[c] : 0.0F));
    }
}

Status add_bias(const Queue& queue, const Tensor& out, const Tensor& x, const float* bias) {
    const dim3 grid(static_cast<unsigned>(out.rows));
    return launch(queue, "matmul", grid, threads_for(out.columns), add_bias_kernel, Rows2d(out), Rows2d(x), bias,
                  out.columns);
}

/// What cuBLASLt reads and writes: it takes x in the weight's type and gives f32, or bf16 from bf16. The rest goes
/// through scratch: x is converted before, bias and rounding to bf16 come after, in f32.
struct Operands {
    Tensor x, out;
};

Result<Operands> place_operands(const MatmulArgs& args, const CudaMatrix& w, Scratch& converted, Scratch& product) {
    Operands placed{args.x, args.out};
    auto& [x, out] = placed;
    if (x.dtype != w.dtype()) {
        RONDO_ASSIGN(void* memory, converted.reserve(bytes_of(w.dtype(), x.rows * x.columns)));
        x = Tensor::of(memory, w.dtype(), x.rows, x.columns);
    }
    if (out.dtype != DType::f32 && (out.dtype != w.dtype() || args.bias != nullptr)) {
        RONDO_ASSIGN(void* memory, product.reserve(bytes_of(DType::f32, out.rows * out.columns)));
        out = Tensor::of(memory, DType::f32, out.rows, out.columns);
    }
    return placed;
}

}  // namespace

Status CudaOps::reserve(const MatmulArgs& args) {
    if (args.rows == Rows::invariant) return {};
    return place_operands(args, static_cast<const CudaMatrix&>(*args.w), converted_, product_).status();
}

Result<bool> CudaOps::matmul_bulk(const MatmulArgs& args, const CudaMatrix& w) {
    RONDO_ASSIGN(const Operands placed, place_operands(args, w, converted_, product_));
    const auto& [x, out] = placed;
    if (x.data != args.x.data) RONDO_TRY(add_bias(queue_, x, args.x, nullptr));
    Product product{out.rows, out.columns, x.columns, w.dtype(), out.dtype, args.accumulate};
    product.x = x.data;
    product.x_stride = x.stride;
    product.w = w.data();
    product.out = out.data;
    product.out_stride = out.stride;
    RONDO_ASSIGN(const bool done, gemm_->multiply(product, queue_.stream));
    if (!done) return false;
    if (out.data != args.out.data || args.bias != nullptr) RONDO_TRY(add_bias(queue_, args.out, out, args.bias));
    return true;
}

Status CudaOps::matmul_rows(const MatmulArgs& args, const CudaMatrix& w) {
    const int64_t m = args.out.rows, n = args.out.columns;
    const auto go = [&](auto kernel, int64_t rows, auto* x, auto* weights) {
        const int64_t all = (m + rows - 1) / rows, tiles = all < tiles_max ? all : tiles_max;
        const dim3 grid(static_cast<unsigned>((n + warps - 1) / warps * tiles));
        return launch(queue_, "matmul", grid, warps * 32, kernel, Rows2d(args.out), x, args.x.stride, weights,
                      args.bias, args.accumulate, m, n, args.x.columns, static_cast<int>(tiles));
    };
    const auto by_x = [&](auto* x, auto* weights) {
        using Activation = std::remove_cvref_t<decltype(*x)>;
        using Weight = std::remove_cvref_t<decltype(*weights)>;
        return m == 1 ? go(matmul_rows_kernel<1, Weight, Activation>, 1, x, weights)
                      : go(matmul_rows_kernel<tile_rows, Weight, Activation>, tile_rows, x, weights);
    };
    const auto by_weight = [&](auto* weights) {
        return args.x.dtype == DType::f32 ? by_x(reinterpret_cast<const float*>(args.x.data), weights)
                                          : by_x(reinterpret_cast<const __nv_bfloat16*>(args.x.data), weights);
    };
    switch (w.dtype()) {
        case DType::f32:
            return by_weight(reinterpret_cast<const float*>(w.data()));
        case DType::bf16:
            return by_weight(reinterpret_cast<const __nv_bfloat16*>(w.data()));
        default:
            return by_weight(reinterpret_cast<const __half*>(w.data()));
    }
}

Status CudaOps::matmul(const MatmulArgs& args) {
    const auto& w = static_cast<const CudaMatrix&>(*args.w);
    assert(args.out.rows == args.x.rows && args.out.columns == w.outputs() && args.x.columns == w.inputs());
    assert(is_activation(args.x.dtype) && is_activation(args.out.dtype));
    assert(!args.accumulate || args.out.dtype == DType::f32);
    if (args.out.rows == 0) return {};
    if (args.rows == Rows::bulk) {
        RONDO_ASSIGN(const bool done, matmul_bulk(args, w));
        if (done) return {};
    }
    return matmul_rows(args, w);
}

}  // namespace rondo::cuda
