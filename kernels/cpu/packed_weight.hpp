#pragma once

#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "kernels/cpu/dense_panels.hpp"
#include "kernels/cpu/packed_quant.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"

namespace rondo::cpu {

/// The CPU's packed weight: one segment for each stacked part (the types of q, k and v differ in a k-quant file), each
/// in panels of 64 outputs. Neighbouring parts of one dense type whose rows fill whole panels could be one segment.
/// They are not, because a panel is the unit of work anyway.
class PackedWeight : public PackedMatrix {
public:
    struct Segment {
        std::variant<DensePanels, QuantPanels> panels;
        const std::byte* storage = nullptr;
        int64_t first_output = 0;
        int64_t outputs = 0;
        int64_t panel_count() const { return (outputs + panel_outputs - 1) / panel_outputs; }
        size_t storage_bytes() const;
        const DensePanels* dense() const { return std::get_if<DensePanels>(&panels); }
        const QuantPanels* quant() const { return std::get_if<QuantPanels>(&panels); }
    };

    static Result<std::unique_ptr<PackedMatrix>> pack(std::span<const HostMatrix> parts, Device& device,
                                                      ThreadPool& pool);
    /// What `pack` will take for them, by their shapes and types alone.
    static Result<size_t> packed_bytes(std::span<const HostMatrix> parts);

    int64_t outputs() const override { return outputs_; }
    int64_t inputs() const override { return inputs_; }
    size_t bytes() const override { return storage_.bytes(); }
    std::span<const Segment> segments() const { return segments_; }
    int64_t panel_count() const { return panel_count_; }
    /// The segment that holds a panel of the whole weight; `panel` becomes its number within the segment.
    const Segment& segment_of(int64_t& panel) const {
        size_t s = 0;
        while (panel >= segments_[s].panel_count()) panel -= segments_[s++].panel_count();
        return segments_[s];
    }

    /// Row `row` as floats.
    void unpack_row(int64_t row, float* out) const;

private:
    /// Makes the segments, still without storage; the bytes they need.
    Result<size_t> lay_out(std::span<const HostMatrix> parts);

    Buffer storage_;
    std::vector<Segment> segments_;
    int64_t outputs_ = 0;
    int64_t inputs_ = 0;
    int64_t panel_count_ = 0;
};

}  // namespace rondo::cpu
