#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "config/result.hpp"
#include "kernels/dtype.hpp"

namespace rondo::cpu {

/// Outputs of one panel: the unit in which weights are stored, multiplied and shared out to threads.
inline constexpr int64_t panel_outputs = 64;

/// A weight [N = rows, K = columns] of f32, bf16 or f16, repacked so that GEMM, GEMV and row look-up share one copy:
///   f32, f16   [panels][K padded to 16][64]
///   bf16       [panels][K padded to 32, / 2][64][2]     (pairs of inputs, as AMX tiles and bf16 dot products read)
/// Padding is zero. Knows shapes only: the storage is the caller's, 64-byte aligned. Immutable.
class DensePanels {
public:
    static Result<DensePanels> pack_shape(DType type, int64_t rows, int64_t columns);

    DType type() const { return type_; }
    int64_t rows() const { return rows_; }
    int64_t columns() const { return columns_; }
    int64_t columns_padded() const { return columns_padded_; }
    int64_t panels() const { return (rows_ + panel_outputs - 1) / panel_outputs; }
    size_t panel_bytes() const;
    size_t bytes() const { return panel_bytes() * static_cast<size_t>(panels()); }
    const std::byte* panel(const std::byte* storage, int64_t p) const {
        return storage + static_cast<size_t>(p) * panel_bytes();
    }

    /// Packs panels [begin, end) from row-major rows; output row i is the file's row row_order[i], or i without an
    /// order.
    void pack_rows(std::byte* storage, const std::byte* source, std::span<const int32_t> row_order, int64_t begin,
                   int64_t end) const;
    /// Row `row` as K floats.
    void unpack_row(const std::byte* storage, int64_t row, float* out) const;

private:
    DType type_ = DType::f32;
    int64_t rows_ = 0;
    int64_t columns_ = 0;
    int64_t columns_padded_ = 0;
};

}  // namespace rondo::cpu
