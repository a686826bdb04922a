#include "model/attention/mass_probe.hpp"

#include <numeric>

namespace rondo {

Status MassProbe::look(const ModelSpec& spec, Device& device, int layer, ScoreArgs step, const StepAttention& attention,
                       const SequenceKv& kv) {
    const size_t first = masses_.size();
    masses_.resize(first + static_cast<size_t>(spec.heads), 1.0);
    if (!attention.ranges_of_step(layer, 0, kv, [](int64_t, int64_t) {})) return Status::ok();
    newest_.host().assign({static_cast<int32_t>(kv.tokens() - 1)});
    RONDO_TRY(newest_.send(device));
    step.row_keys = newest_.data();
    return device.ops().score_rows(step, [&](int head, const Tensor& row) {
        const std::span<const float> weights(row.row<const float>(0), static_cast<size_t>(row.columns));
        double held = 0.0;
        attention.ranges_of_step(layer, head / (spec.heads / spec.kv_heads), kv, [&](int64_t begin, int64_t end) {
            held += std::accumulate(weights.begin() + begin, weights.begin() + end, 0.0);
        });
        masses_[first + static_cast<size_t>(head)] = held;
    });
}

}  // namespace rondo
