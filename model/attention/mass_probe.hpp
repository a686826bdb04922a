#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/device_table.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/step_attention.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// Finds out, for an evaluation, what share of its attention over all keys the keys hold that each step of a sequence's
/// answer attends to. Costs a pass over all keys, which must be there: none may have been given up.
class MassProbe {
public:
    /// A layer of a step is about to attend by `attention`; `step` is its row, whose key is the newest.
    Status look(const ModelSpec& spec, Device& device, int layer, ScoreArgs step, const StepAttention& attention,
                const SequenceKv& kv);
    /// The shares, of each step since it was made, layer and query head.
    std::span<const double> masses() const { return masses_; }

private:
    std::vector<double> masses_;
    DeviceTable<int32_t> newest_;
};

}  // namespace rondo
