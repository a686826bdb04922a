#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace rondo {

/// A view of a matrix in some device's memory: `rows` × `columns`, a row's elements contiguous, rows `stride`
/// elements apart. Owns nothing; a Buffer or a model file does. Vectors are matrices of one row.
struct Tensor {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t stride = 0;

    static Tensor of(void* data, DType dtype, int64_t rows, int64_t columns) {
        return {static_cast<std::byte*>(data), dtype, rows, columns, columns};
    }

    template <class T>
    T* row(int64_t i) const {
        return reinterpret_cast<T*>(data + static_cast<size_t>(i * stride) * traits(dtype).block_bytes);
    }

    /// Rows [first, first + count).
    Tensor slice_rows(int64_t first, int64_t count) const {
        assert(first >= 0 && count >= 0 && first + count <= rows);
        return {row<std::byte>(first), dtype, count, columns, stride};
    }

    /// Columns [first, first + count); keeps the stride.
    Tensor slice_columns(int64_t first, int64_t count) const {
        assert(first >= 0 && count >= 0 && first + count <= columns);
        return {data + static_cast<size_t>(first) * traits(dtype).block_bytes, dtype, rows, count, stride};
    }

    bool contiguous() const { return stride == columns || rows <= 1; }
};

}  // namespace rondo
