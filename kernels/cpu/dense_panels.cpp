#include "kernels/cpu/dense_panels.hpp"

#include <algorithm>
#include <cstring>

#include "config/checked.hpp"
#include "kernels/cpu/convert.hpp"

namespace rondo::cpu {

namespace {

/// Interleaves 64 rows of 16-bit inputs by pairs. A block of 32 inputs at a time, so that the 64 source rows' cache
/// lines and the 4 KiB written stay in L1.
void pack_pairs(uint16_t* out, const uint16_t* const* rows, int64_t columns, int64_t columns_padded) {
    for (int64_t k0 = 0; k0 < columns_padded; k0 += 32) {
        const int64_t k1 = std::min(k0 + 32, columns);
        uint16_t* const block = out + k0 * panel_outputs;
        if (k1 - k0 < 32) std::memset(block, 0, 32 * panel_outputs * sizeof(uint16_t));
        for (int64_t n = 0; n < panel_outputs; ++n) {
            const uint16_t* const row = rows[n];
            if (row == nullptr) {
                for (int64_t k = 0; k < 32; ++k) block[(k / 2) * 2 * panel_outputs + 2 * n + k % 2] = 0;
                continue;
            }
            int64_t k = k0;
            for (; k + 2 <= k1; k += 2) {
                uint32_t pair;
                std::memcpy(&pair, row + k, sizeof pair);
                std::memcpy(block + (k - k0) * panel_outputs + 2 * n, &pair, sizeof pair);
            }
            if (k < k1) std::memcpy(block + (k - k0) * panel_outputs + 2 * n, row + k, sizeof *row);
        }
    }
}

/// Transposes 64 rows into [K padded][64].
template <class T>
void pack_plain(T* out, const T* const* rows, int64_t columns, int64_t columns_padded) {
    for (int64_t k0 = 0; k0 < columns_padded; k0 += 16) {
        const int64_t k1 = std::min(k0 + 16, columns);
        T* const block = out + k0 * panel_outputs;
        std::memset(block, 0, 16 * panel_outputs * sizeof(T));
        for (int64_t n = 0; n < panel_outputs; ++n) {
            if (rows[n] == nullptr) continue;
            T values[16];  // a file's rows may lie at odd addresses
            std::memcpy(values, rows[n] + k0, static_cast<size_t>(k1 - k0) * sizeof(T));
            for (int64_t k = k0; k < k1; ++k) block[(k - k0) * panel_outputs + n] = values[k - k0];
        }
    }
}

template <class T>
void gather_rows(const T** rows, const std::byte* source, std::span<const int32_t> order, int64_t first, int64_t count,
                 int64_t columns) {
    for (int64_t n = 0; n < panel_outputs; ++n) {
        const int64_t row = first + n;
        rows[n] = row < count ? reinterpret_cast<const T*>(source) +
                                    (order.empty() ? row : order[static_cast<size_t>(row)]) * columns
                              : nullptr;
    }
}

}  // namespace

Result<DensePanels> DensePanels::pack_shape(DType type, int64_t rows, int64_t columns) {
    if (type != DType::f32 && type != DType::bf16 && type != DType::f16) {
        return make_error(ErrorCode::unsupported,
                          "a dense weight of type " + std::string(traits(type).name) + ", must be f32, bf16 or f16");
    }
    DensePanels shape;
    shape.type_ = type;
    shape.rows_ = rows;
    shape.columns_ = columns;
    shape.columns_padded_ = round_up<int64_t>(columns, type == DType::bf16 ? 32 : 16);
    const auto elements = rows <= 0 || columns <= 0
                              ? std::nullopt
                              : checked_mul(round_up<int64_t>(rows, panel_outputs), shape.columns_padded_ * 4);
    if (!elements)
        return make_error(ErrorCode::out_of_range,
                          "a weight of " + std::to_string(rows) + " x " + std::to_string(columns));
    return shape;
}

size_t DensePanels::panel_bytes() const {
    return static_cast<size_t>(columns_padded_ * panel_outputs) * static_cast<size_t>(traits(type_).block_bytes);
}

void DensePanels::pack_rows(std::byte* storage, const std::byte* source, std::span<const int32_t> row_order,
                            int64_t begin, int64_t end) const {
    for (int64_t p = begin; p < end; ++p) {
        std::byte* const out = storage + static_cast<size_t>(p) * panel_bytes();
        if (type_ == DType::f32) {
            const float* rows[panel_outputs];
            gather_rows(rows, source, row_order, p * panel_outputs, rows_, columns_);
            pack_plain(reinterpret_cast<float*>(out), rows, columns_, columns_padded_);
            continue;
        }
        const uint16_t* rows[panel_outputs];
        gather_rows(rows, source, row_order, p * panel_outputs, rows_, columns_);
        if (type_ == DType::bf16) {
            pack_pairs(reinterpret_cast<uint16_t*>(out), rows, columns_, columns_padded_);
        } else {
            pack_plain(reinterpret_cast<uint16_t*>(out), rows, columns_, columns_padded_);
        }
    }
}

void DensePanels::unpack_row(const std::byte* storage, int64_t row, float* out) const {
    const std::byte* const from = panel(storage, row / panel_outputs);
    const int64_t n = row % panel_outputs;
    if (type_ == DType::f32) {
        const auto* values = reinterpret_cast<const float*>(from);
        for (int64_t k = 0; k < columns_; ++k) out[k] = values[k * panel_outputs + n];
        return;
    }
    const auto* values = reinterpret_cast<const uint16_t*>(from);
    if (type_ == DType::f16) {
        for (int64_t k = 0; k < columns_; ++k) out[k] = float_from_f16(values[k * panel_outputs + n]);
        return;
    }
    for (int64_t k = 0; k < columns_; ++k) {
        out[k] = float_from_bf16(values[(k / 2) * 2 * panel_outputs + 2 * n + k % 2]);
    }
}

}  // namespace rondo::cpu
