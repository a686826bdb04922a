#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/attention/chosen_keys.hpp"

namespace rondo {

/// Keys of a method that shifts (streaming_llm as published): the copies of the chosen keys, the same number for each
/// KV head, stand right before a window that slides, at positions of their own. They are turned step by step, from what
/// was copied and not from where they stood last, so that rounding does not add up.
class ShiftedWindow final : public ChosenKeys {
public:
    static Result<std::unique_ptr<ShiftedWindow>> create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                         const Options& options, QueryRing ring);

    Result<AttendedKeys> keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) override;

private:
    struct Layer {
        DeviceTable<int32_t> slots;  // of the copies, KV head by KV head; none: not read yet
        Buffer keys, values;         // [slots, d] f32, as they were copied
    };
    ShiftedWindow(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options, QueryRing ring);
    void serve(Choice& choice) override;
    Status move(int layer, int64_t positions, int32_t keys);
    Status read(int layer, int32_t keys);
    Status set_angles(int64_t positions, int64_t rows);
    Status compute_angles(int64_t rows);
    Tensor rows_of(const Buffer& buffer, int64_t rows) const;

    std::vector<Layer> layers_;
    DeviceTable<double> inverse_frequency_;  // [d/2]; sent by the first step that turns keys
    Buffer angles_, turned_;                 // [slots, d] f32
    DeviceTable<int32_t> positions_;
};

}  // namespace rondo
