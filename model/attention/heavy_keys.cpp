#include "model/attention/heavy_keys.hpp"

#include <cassert>

#include "config/stopwatch.hpp"
#include "kernels/device_buffer.hpp"

namespace rondo {

HeavyKeys::HeavyKeys(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options, QueryRing ring)
    : ChosenKeys(spec, pool, device, options, std::move(ring)) {
    assert(options.method->triggers().once && options.lag_steps == 0);
}

void HeavyKeys::serve(Choice& choice) {
    sums_ = choice.take_sums();
    ChosenKeys::serve(choice);
}

void HeavyKeys::count_step(const SequenceKv& kv) {
    ChosenKeys::count_step(kv);
    if (serving()) stats_.keys_scored += attended(kv);
}

Result<AttendedKeys> HeavyKeys::keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) {
    if (!serving()) return AttendedKeys{};
    {
        const Stopwatch watch(stats_.gather_seconds);
        RONDO_TRY(leave_window(layer, kv));
    }
    const AttendedKeys keys = copies().keys(layer, tail_begin(layer));
    const Stopwatch watch(stats_.score_seconds);
    RONDO_TRY(add(layer, step, keys, kv));
    return keys;
}

/// Keys before the tail compete, in order of age, for places among the copies.
Status HeavyKeys::leave_window(int layer, const SequenceKv& kv) {
    while (sums_->window_begin(layer) < tail_begin(layer)) {
        const auto key = static_cast<int32_t>(sums_->window_begin(layer));
        const std::span<const int32_t> places = sums_->leave_window(layer);
        if (!places.empty()) RONDO_TRY(copies().replace(layer, kv, key, places));
    }
    return Status::ok();
}

/// What the step weighs the keys with that it attends to.
Status HeavyKeys::add(int layer, const ScoreArgs& step, const AttendedKeys& attended, const SequenceKv& kv) {
    const LayerGroup group = pool_.shape().group_of(layer);
    const auto begins = kv.block_begin(group);
    const int64_t columns = (attended.stride + std::ssize(begins) - 1) * kv_block_tokens;
    const auto floats = static_cast<size_t>(spec_.kv_heads * columns);
    RONDO_TRY(grow(device_, weights_, floats * sizeof(float)));
    const Tensor weights = Tensor::of(weights_.data(), DType::f32, spec_.kv_heads, columns);
    RONDO_TRY(device_.ops().score_selected(weights, step, attended, pool_.atoms(group)));
    assert(weights_.space().kind == DeviceKind::cpu);  // no other backend has this op
    sums_->add(layer, {weights_.as<float>(), floats}, begins);
    return Status::ok();
}

}  // namespace rondo
