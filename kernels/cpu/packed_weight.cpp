#include "kernels/cpu/packed_weight.hpp"

#include <string>

#include "config/checked.hpp"

namespace rondo::cpu {

namespace {

Status check_order(const HostMatrix& part) {
    if (part.row_order.empty()) return Status::ok();
    if (static_cast<int64_t>(part.row_order.size()) != part.rows) {
        return make_error(ErrorCode::invalid_argument, "a row order of " + std::to_string(part.row_order.size()) +
                                                           " entries for " + std::to_string(part.rows) + " rows");
    }
    for (const int32_t row : part.row_order) {
        if (row < 0 || row >= part.rows)
            return make_error(ErrorCode::invalid_argument, "a row order that leaves the matrix");
    }
    return Status::ok();
}

Result<PackedWeight::Segment> shape_segment(const HostMatrix& part) {
    PackedWeight::Segment segment;
    segment.outputs = part.rows;
    if (is_quantized(part.dtype)) {
        RONDO_ASSIGN(segment.panels, QuantPanels::pack_shape(part.dtype, part.rows, part.columns));
    } else {
        RONDO_ASSIGN(segment.panels, DensePanels::pack_shape(part.dtype, part.rows, part.columns));
    }
    return segment;
}

void pack_panel(const PackedWeight::Segment& segment, const HostMatrix& part, int64_t panel) {
    auto* const storage = const_cast<std::byte*>(segment.storage);
    if (const auto* const dense = segment.dense()) {
        dense->pack_rows(storage, part.data, part.row_order, panel, panel + 1);
    } else {
        const auto* const quant = segment.quant();
        quant->pack_rows(storage, part.data, part.row_order, panel * 4, std::min(panel * 4 + 4, quant->groups()));
    }
}

}  // namespace

Result<size_t> PackedWeight::lay_out(std::span<const HostMatrix> parts) {
    if (parts.empty()) return make_error(ErrorCode::invalid_argument, "a weight of no parts");
    inputs_ = parts[0].columns;
    size_t bytes = 0;
    for (const HostMatrix& part : parts) {
        if (part.columns != inputs_) {
            return make_error(ErrorCode::invalid_argument, "stacked weights of " + std::to_string(inputs_) + " and " +
                                                               std::to_string(part.columns) + " inputs");
        }
        RONDO_TRY(check_order(part));
        RONDO_ASSIGN(Segment segment, shape_segment(part));
        segment.first_output = outputs_;
        bytes += segment.storage_bytes();
        outputs_ += part.rows;
        panel_count_ += segment.panel_count();
        segments_.push_back(std::move(segment));
    }
    // Kernels prefetch past the end of a panel, and AMX reads whole tiles: the slack keeps that inside the buffer.
    return bytes + 64;
}

Result<size_t> PackedWeight::packed_bytes(std::span<const HostMatrix> parts) {
    return PackedWeight().lay_out(parts);
}

Result<std::unique_ptr<PackedMatrix>> PackedWeight::pack(std::span<const HostMatrix> parts, Device& device,
                                                         ThreadPool& pool) {
    auto packed = std::make_unique<PackedWeight>();
    RONDO_ASSIGN(const size_t bytes, packed->lay_out(parts));
    RONDO_ASSIGN(packed->storage_, device.allocate(bytes));
    const std::byte* storage = packed->storage_.as<std::byte>();
    for (size_t i = 0; i < parts.size(); ++i) {
        Segment& segment = packed->segments_[i];
        segment.storage = storage;
        storage += segment.storage_bytes();
        pool.run(segment.panel_count(), [&](int64_t panel, int) { pack_panel(segment, parts[i], panel); });
    }
    return std::unique_ptr<PackedMatrix>(std::move(packed));
}

size_t PackedWeight::Segment::storage_bytes() const {
    return round_up<size_t>(std::visit([](const auto& shape) { return shape.bytes(); }, panels), 64);
}

void PackedWeight::unpack_row(int64_t row, float* out) const {
    for (const Segment& segment : segments_) {
        const int64_t inside = row - segment.first_output;
        if (inside >= segment.outputs) continue;
        std::visit([&](const auto& panels) { panels.unpack_row(segment.storage, inside, out); }, segment.panels);
        return;
    }
}

}  // namespace rondo::cpu
