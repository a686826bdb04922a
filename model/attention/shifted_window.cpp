#include "model/attention/shifted_window.hpp"

#include <cassert>

#include "config/stopwatch.hpp"
#include "kernels/device_buffer.hpp"

namespace rondo {

ShiftedWindow::ShiftedWindow(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options,
                             QueryRing ring)
    : ChosenKeys(spec, pool, device, options, std::move(ring)), layers_(static_cast<size_t>(spec.layers)) {
    assert(options.method->triggers().once && options.lag_steps == 0);
}

Result<std::unique_ptr<ShiftedWindow>> ShiftedWindow::create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                             const Options& options, QueryRing ring) {
    std::unique_ptr<ShiftedWindow> made(new ShiftedWindow(spec, pool, device, options, std::move(ring)));
    const std::vector<double> frequency = spec.inverse_frequency();
    RONDO_TRY(made->inverse_frequency_.reserve(device, frequency.size()));
    made->inverse_frequency_.host().assign(frequency.begin(), frequency.end());
    return made;
}

void ShiftedWindow::serve(Choice& choice) {
    ChosenKeys::serve(choice);
    for (Layer& layer : layers_) layer.slots.host().clear();
    positions_.host().clear();
}

Result<AttendedKeys> ShiftedWindow::keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) {
    if (serving()) {
        const Stopwatch watch(stats_.gather_seconds);
        const auto count = static_cast<int32_t>(chosen(layer).front().size());
        RONDO_TRY(move(layer, tail_begin(layer) - count, count));
    }
    return ChosenKeys::keys_of_step(layer, step, kv);
}

Tensor ShiftedWindow::rows_of(const Buffer& buffer, int64_t rows) const {
    return Tensor::of(buffer.data(), DType::f32, rows, spec_.head_dim);
}

Status ShiftedWindow::read(int layer, int32_t keys) {
    Layer& made = layers_[static_cast<size_t>(layer)];
    for (int head = 0; head < spec_.kv_heads; ++head)
        for (int32_t place = 0; place < keys; ++place)
            made.slots.host().push_back(copies().slot_of_copy(layer, head, place));
    const int64_t rows = std::ssize(made.slots.host());
    for (Buffer* buffer : {&made.keys, &made.values, &angles_, &turned_})
        RONDO_TRY(grow(device_, *buffer, bytes_of(DType::f32, rows * spec_.head_dim)));
    RONDO_TRY(made.slots.send(device_));
    return device_.ops().read_kv(rows_of(made.keys, rows), rows_of(made.values, rows),
                                 pool_.each_atom(pool_.shape().group_of(layer)), made.slots.data());
}

/// The same for all layers of a step. Where it fails, the next call tries again.
Status ShiftedWindow::set_angles(int64_t positions, int64_t rows) {
    const auto same = static_cast<int32_t>(positions);
    std::vector<int32_t>& table = positions_.host();
    if (std::ssize(table) == rows && table.front() == same) return Status::ok();
    table.assign(static_cast<size_t>(rows), same);
    const Status set = compute_angles(rows);
    if (!set) table.clear();
    return set;
}

Status ShiftedWindow::compute_angles(int64_t rows) {
    RONDO_TRY(positions_.send(device_));
    if (inverse_frequency_.data() == nullptr) RONDO_TRY(inverse_frequency_.send(device_));
    return device_.ops().rope_angles(rows_of(angles_, rows), positions_.data(), inverse_frequency_.data());
}

/// A layer's copies, `keys` of each KV head, stand `positions` behind where they were written at.
Status ShiftedWindow::move(int layer, int64_t positions, int32_t keys) {
    Layer& made = layers_[static_cast<size_t>(layer)];
    if (made.slots.host().empty()) {
        const Status done = read(layer, keys);
        if (!done) {
            made.slots.host().clear();  // so that the next call tries again
            return done;
        }
    }
    const int64_t rows = std::ssize(made.slots.host());
    if (rows == 0) return Status::ok();
    RONDO_TRY(set_angles(positions, rows));
    const Tensor turned = rows_of(turned_, rows);
    Ops& ops = device_.ops();
    RONDO_TRY(
        device_.copy(turned.data, made.keys.data(), bytes_of(DType::f32, rows * spec_.head_dim), StreamId::compute));
    RONDO_TRY(ops.rope(turned, rows_of(angles_, rows), 1));
    return ops.append_kv(pool_.each_atom(pool_.shape().group_of(layer)), turned, rows_of(made.values, rows),
                         made.slots.data());
}

}  // namespace rondo
