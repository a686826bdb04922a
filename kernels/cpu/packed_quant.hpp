#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "config/result.hpp"
#include "kernels/cpu/quant_activations.hpp"
#include "kernels/dtype.hpp"

namespace rondo::cpu {

/// A quantized weight [N = rows, K = columns] repacked for products (quant_layout.hpp has the bytes): groups of 16 rows
/// with their codes interleaved. It takes the file's bytes, and 1% (q6_k), 3% (q4_k, q5_k, iq4_xs) or 6% (q3_k) more;
/// rows that fill up the last group come on top. Knows shapes only: the storage is the caller's, 64-byte aligned,
/// `bytes()` long. Immutable, so any number of threads may use it, each on groups of its own.
class QuantPanels {
public:
    /// Refuses types that are not quantized, rows that are not whole blocks, and sizes that do not fit.
    static Result<QuantPanels> pack_shape(DType type, int64_t rows, int64_t columns);

    DType type() const { return type_; }
    int64_t rows() const { return rows_; }
    int64_t columns() const { return columns_; }
    int64_t groups() const { return groups_; }
    int64_t panels() const { return (groups_ + 3) / 4; }  ///< of 64 rows
    size_t bytes() const { return bytes_; }

    /// Packs groups [group_begin, group_end) from rows as they lie in a file. Output row i is the file's row
    /// `row_order[i]`, or i when the order is empty.
    void pack_rows(std::byte* storage, const std::byte* source_row0, std::span<const int32_t> row_order,
                   int64_t group_begin, int64_t group_end) const;

    /// y[m·y_stride + n] (= or +=) Σ_k x[m, k] · w[n, k] + bias[n] for the rows n of groups [group_begin, group_end).
    /// The bits of row m depend on row m alone. Rows that lie side by side need VNNI and `wide` (wide_bytes of memory,
    /// 64-byte aligned).
    void multiply(const std::byte* storage, const QuantActivations& x, int64_t group_begin, int64_t group_end, float* y,
                  int64_t y_stride, const float* bias, bool accumulate, std::byte* wide = nullptr) const;

    /// The 256 inputs from `input` on, or the fewer last ones, of rows [64·panel, 64·panel + 64) as bf16 tiles one
    /// behind another (TileWeights::of_tiles): one of tile_count(input) of them. Rows beyond the last are zero. Needs
    /// AVX-512 with bf16.
    void unpack_tile(const std::byte* storage, int64_t panel, int64_t input, int64_t tile, uint16_t* tiles) const;
    int64_t tile_count(int64_t input) const;
    /// One row as K floats, the very ones of dequantize_row.
    void unpack_row(const std::byte* storage, int64_t row, float* out) const;

private:
    DType type_ = DType::q8_0;
    int64_t rows_ = 0;
    int64_t columns_ = 0;
    int64_t groups_ = 0;
    int64_t group_bytes_ = 0;
    size_t bytes_ = 0;
};

}  // namespace rondo::cpu
