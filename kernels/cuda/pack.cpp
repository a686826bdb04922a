#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "config/checked.hpp"
#include "kernels/cuda/cuda_ops.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/quant.hpp"

namespace rondo::cuda {
namespace {

constexpr size_t staging_bytes = size_t{8} << 20;

bool is_weight(DType type) {
    return type == DType::f32 || type == DType::bf16 || type == DType::f16 || is_quantized(type);
}

/// f32, bf16 and f16 stay, quantized weights become bf16. Parts that would differ meet in f32, which holds all of them.
DType packed_type(std::span<const HostMatrix> parts) {
    const auto kept = [](DType type) { return is_quantized(type) ? DType::bf16 : type; };
    const DType first = kept(parts.front().dtype);
    for (const HostMatrix& part : parts) {
        if (kept(part.dtype) != first) return DType::f32;
    }
    return first;
}

Status check_parts(std::span<const HostMatrix> parts) {
    if (parts.empty()) return make_error(ErrorCode::invalid_argument, "pack: no parts");
    const int64_t inputs = parts.front().columns;
    for (const HostMatrix& part : parts) {
        const std::string type(traits(part.dtype).name);
        if (!is_weight(part.dtype)) return make_error(ErrorCode::unsupported, "pack: " + type + " is no weight type");
        if (part.rows <= 0 || part.columns <= 0 || part.columns % traits(part.dtype).block_elements != 0) {
            return make_error(ErrorCode::invalid_argument, "pack: " + std::to_string(part.rows) + " x " +
                                                               std::to_string(part.columns) + " is no shape for " +
                                                               type);
        }
        if (part.columns != inputs) {
            return make_error(ErrorCode::invalid_argument, "pack: parts of " + std::to_string(inputs) + " and " +
                                                               std::to_string(part.columns) +
                                                               " inputs; they must agree");
        }
        if (!part.row_order.empty() && part.row_order.size() != static_cast<size_t>(part.rows)) {
            return make_error(ErrorCode::invalid_argument, "pack: an order of " +
                                                               std::to_string(part.row_order.size()) + " rows for " +
                                                               std::to_string(part.rows));
        }
        for (const int32_t row : part.row_order) {
            if (row < 0 || row >= part.rows) {
                return make_error(ErrorCode::out_of_range, "pack: the order names row " + std::to_string(row) + " of " +
                                                               std::to_string(part.rows));
            }
        }
    }
    return {};
}

/// One output row of a part, in the packed type.
void convert_row(const HostMatrix& part, int64_t row, DType type, std::vector<float>& values, std::byte* to) {
    const int64_t source = part.row_order.empty() ? row : part.row_order[static_cast<size_t>(row)];
    const std::byte* from = part.data + static_cast<size_t>(source) * bytes_of(part.dtype, part.columns);
    if (part.dtype == type) {
        std::memcpy(to, from, bytes_of(type, part.columns));
    } else if (type == DType::f32) {
        dequantize_row(part.dtype, from, reinterpret_cast<float*>(to), part.columns);
    } else {
        dequantize_row(part.dtype, from, values.data(), part.columns);
        auto* rounded = reinterpret_cast<__nv_bfloat16*>(to);
        for (int64_t c = 0; c < part.columns; ++c) rounded[c] = __float2bfloat16_rn(values[static_cast<size_t>(c)]);
    }
}

/// Copies and waits, so that the source may change or go at once.
Status upload(const Queue& queue, void* to, const void* from, size_t bytes) {
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue.stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(queue.stream);
    return cuda_status(error, queue.ordinal, "uploading a weight");
}

Status upload_part(const Queue& queue, const HostMatrix& part, DType type, std::byte* to) {
    const size_t row_bytes = bytes_of(type, part.columns);
    if (part.dtype == type && part.row_order.empty()) {
        return upload(queue, to, part.data, row_bytes * static_cast<size_t>(part.rows));
    }
    const int64_t rows_max = std::max<int64_t>(1, static_cast<int64_t>(staging_bytes / row_bytes));
    std::vector<std::byte> staging(row_bytes * static_cast<size_t>(std::min(rows_max, part.rows)));
    std::vector<float> values(static_cast<size_t>(part.columns));
    for (int64_t first = 0; first < part.rows; first += rows_max) {
        const int64_t count = std::min(rows_max, part.rows - first);
        for (int64_t i = 0; i < count; ++i) {
            convert_row(part, first + i, type, values, staging.data() + static_cast<size_t>(i) * row_bytes);
        }
        RONDO_TRY(upload(queue, to + static_cast<size_t>(first) * row_bytes, staging.data(),
                         static_cast<size_t>(count) * row_bytes));
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<PackedMatrix>> CudaOps::pack(std::span<const HostMatrix> parts) {
    RONDO_TRY(check_parts(parts));
    const DType type = packed_type(parts);
    const int64_t inputs = parts.front().columns;
    int64_t outputs = 0;
    for (const HostMatrix& part : parts) {
        const auto sum = checked_add(outputs, part.rows);
        if (!sum) return make_error(ErrorCode::out_of_range, "pack: too many rows");
        outputs = *sum;
    }
    const auto bytes = checked_mul(static_cast<size_t>(outputs), bytes_of(type, 1));
    const auto total = bytes ? checked_mul(*bytes, static_cast<size_t>(inputs)) : std::nullopt;
    if (!total) return make_error(ErrorCode::out_of_range, "pack: a weight of more bytes than can be counted");

    RONDO_ASSIGN(Buffer storage, allocate_on_gpu(queue_.ordinal, *total));
    RONDO_TRY(cuda_status(cudaSetDevice(queue_.ordinal), queue_.ordinal, "selecting the GPU"));
    auto* to = storage.as<std::byte>();
    for (const HostMatrix& part : parts) {
        RONDO_TRY(upload_part(queue_, part, type, to));
        to += static_cast<size_t>(part.rows) * bytes_of(type, inputs);
    }
    return std::unique_ptr<PackedMatrix>(std::make_unique<CudaMatrix>(std::move(storage), type, outputs, inputs));
}

}  // namespace rondo::cuda
