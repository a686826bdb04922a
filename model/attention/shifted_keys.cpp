#include "model/attention/shifted_keys.hpp"

#include "kernels/device_buffer.hpp"

namespace rondo {

ShiftedKeys::ShiftedKeys(const ModelSpec& spec, const KvPool& pool, Device& device)
    : pool_(&pool),
      device_(&device),
      kv_heads_(spec.kv_heads),
      head_dim_(spec.head_dim),
      layers_(static_cast<size_t>(spec.layers)) {}

Result<std::unique_ptr<ShiftedKeys>> ShiftedKeys::create(const ModelSpec& spec, const KvPool& pool, Device& device) {
    std::unique_ptr<ShiftedKeys> made(new ShiftedKeys(spec, pool, device));
    const std::vector<double> frequency = spec.inverse_frequency();
    RONDO_ASSIGN(made->inverse_frequency_, copied_to<double>(device, frequency));
    return made;
}

void ShiftedKeys::clear() {
    for (Layer& layer : layers_) layer.slots.host().clear();
    positions_.host().clear();
}

Tensor ShiftedKeys::rows_of(const Buffer& buffer, int64_t rows) const {
    return Tensor::of(buffer.data(), DType::f32, rows, head_dim_);
}

Status ShiftedKeys::read(int layer, int32_t keys, const SelectedKv& copies) {
    Layer& made = layers_[static_cast<size_t>(layer)];
    for (int head = 0; head < kv_heads_; ++head)
        for (int32_t place = 0; place < keys; ++place)
            made.slots.host().push_back(copies.slot_of_copy(layer, head, place));
    const int64_t rows = std::ssize(made.slots.host());
    for (Buffer* buffer : {&made.keys, &made.values, &angles_, &turned_})
        RONDO_TRY(grow(*device_, *buffer, bytes_of(DType::f32, rows * head_dim_)));
    RONDO_TRY(made.slots.send(*device_));
    return device_->ops().read_kv(rows_of(made.keys, rows), rows_of(made.values, rows),
                                  pool_->each_atom(pool_->shape().group_of(layer)), made.slots.data());
}

/// The same for all layers of a step.
Status ShiftedKeys::set_angles(int64_t positions, int64_t rows) {
    const auto same = static_cast<int32_t>(positions);
    std::vector<int32_t>& table = positions_.host();
    if (std::ssize(table) == rows && table.front() == same) return Status::ok();
    table.assign(static_cast<size_t>(rows), same);
    RONDO_TRY(positions_.send(*device_));
    return device_->ops().rope_angles(rows_of(angles_, rows), positions_.data(), inverse_frequency_.as<double>());
}

Status ShiftedKeys::move(int layer, int64_t positions, int32_t keys, const SelectedKv& copies) {
    Layer& made = layers_[static_cast<size_t>(layer)];
    if (made.slots.host().empty()) RONDO_TRY(read(layer, keys, copies));
    const int64_t rows = std::ssize(made.slots.host());
    if (rows == 0) return Status::ok();
    RONDO_TRY(set_angles(positions, rows));
    const Tensor turned = rows_of(turned_, rows);
    Ops& ops = device_->ops();
    RONDO_TRY(device_->copy(turned.data, made.keys.data(), bytes_of(DType::f32, rows * head_dim_), StreamId::compute));
    RONDO_TRY(ops.rope(turned, rows_of(angles_, rows), 1));
    return ops.append_kv(pool_->each_atom(pool_->shape().group_of(layer)), turned, rows_of(made.values, rows),
                         made.slots.data());
}

}  // namespace rondo
