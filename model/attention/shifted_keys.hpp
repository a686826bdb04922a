#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/selected_kv.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// Moves the copies of one sequence's chosen keys, the same number for each KV head, to other positions, step by step:
/// they are turned from what was copied, not from where they stood last, so that rounding does not add up.
///
///     clear → move (each layer)…        part of each step, on its device's thread
class ShiftedKeys {
public:
    static Result<std::unique_ptr<ShiftedKeys>> create(const ModelSpec& spec, const KvPool& pool, Device& device);

    /// What was copied before is forgotten.
    void clear();
    /// A layer's copies, `keys` of each KV head, stand `positions` behind where they were written at.
    Status move(int layer, int64_t positions, int32_t keys, const SelectedKv& copies);

private:
    struct Layer {
        DeviceTable<int32_t> slots;  // of the copies, KV head by KV head; none: not read yet
        Buffer keys, values;         // [slots, d] f32, as they were copied
    };
    ShiftedKeys(const ModelSpec& spec, const KvPool& pool, Device& device);
    Status read(int layer, int32_t keys, const SelectedKv& copies);
    Status set_angles(int64_t positions, int64_t rows);
    Tensor rows_of(const Buffer& buffer, int64_t rows) const;

    const KvPool* pool_;
    Device* device_;
    int kv_heads_;
    int64_t head_dim_;
    std::vector<Layer> layers_;
    Buffer inverse_frequency_;  // [d/2] f64
    Buffer angles_, turned_;    // [slots, d] f32
    DeviceTable<int32_t> positions_;
};

}  // namespace rondo
