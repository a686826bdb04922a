#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/kv_layout.hpp"
#include "kernels/ops.hpp"

/// What the ops should compute, in double and as plainly as it can be said. Inputs are matrices of doubles that hold
/// only values the tested type can store (`rounded`), so what a test measures is the op's own error.
namespace rondo::test {

struct Matrix {
    int64_t rows = 0;
    int64_t columns = 0;
    std::vector<double> values;

    Matrix() = default;
    Matrix(int64_t rows_of, int64_t columns_of)
        : rows(rows_of), columns(columns_of), values(static_cast<size_t>(rows_of * columns_of)) {}

    double& at(int64_t r, int64_t c) { return values[static_cast<size_t>(r * columns + c)]; }
    double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
    Matrix slice_rows(int64_t first, int64_t count) const;
    Matrix slice_columns(int64_t first, int64_t count) const;
};

/// One below the other; equal columns.
Matrix stacked(const Matrix& top, const Matrix& bottom);
/// Normally distributed with this standard deviation, then rounded to f32.
Matrix random_matrix(int64_t rows, int64_t columns, uint64_t seed, double spread = 1.0);
/// Each value as `dtype` (f32, bf16 or f16) would store it.
Matrix rounded(Matrix values, DType dtype);
/// ‖got − reference‖ / ‖reference‖ over all elements; NaN if anything is.
double relative_error(const Matrix& got, const Matrix& reference);

/// The bytes of a tensor of this dtype (f32, bf16, f16), and back.
std::vector<std::byte> encode(const Matrix& values, DType dtype);
Matrix decode(std::span<const std::byte> bytes, DType dtype, int64_t rows, int64_t columns);

/// A weight as a model file holds it, and what it means.
struct FileWeight {
    std::vector<std::byte> bytes;
    DType dtype = DType::f32;
    Matrix values;

    HostMatrix view(std::span<const int32_t> row_order = {}) const {
        return {bytes.data(), dtype, values.rows, values.columns, row_order};
    }
};

/// Random weights of any weight type: codes are random bits, scales and minima plausible halves.
FileWeight random_weight(DType dtype, int64_t rows, int64_t columns, uint64_t seed);

namespace reference {

Matrix rms_norm(const Matrix& x, const Matrix& weight, double eps);
Matrix rope_angles(std::span<const int32_t> positions, std::span<const double> inverse_frequency);
Matrix rope(const Matrix& x, const Matrix& angles, int heads);
Matrix silu_mul(const Matrix& x);
Matrix softmax(const Matrix& x);
Matrix take_rows(const Matrix& x, std::span<const int32_t> rows);
/// x [M, K] · wᵀ [K, N] + bias [1, N] (or an empty one).
Matrix matmul(const Matrix& x, const Matrix& w, const Matrix& bias = {});
/// Whether a row attends to a key in a query head.
using Sees = std::function<bool(int64_t row, int head, int64_t key)>;
/// Causal attention of the last q.rows keys' queries: q [rows, heads·d]; k and v [keys, kv_heads·d]. `sees` may leave
/// keys out.
Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, int heads, int kv_heads, double scale,
              const Sees& sees = {});

/// One token's k and v [d] in the bytes of its atom, by the words of kernels/kv_layout.hpp.
void write_token(const KvAtom& layout, std::byte* atom, int token, std::span<const double> k,
                 std::span<const double> v);
void read_token(const KvAtom& layout, const std::byte* atom, int token, std::span<double> k, std::span<double> v);

}  // namespace reference
}  // namespace rondo::test
