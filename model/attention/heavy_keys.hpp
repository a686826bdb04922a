#pragma once

#include <memory>

#include "model/attention/chosen_keys.hpp"
#include "model/attention/heavy_sums.hpp"

namespace rondo {

/// Keys of a method that accumulates (h2o): chosen once, they and the window of the most recent ones go on being summed
/// up, step by step. A key that falls out of the window takes the place of the least chosen one if it has been worth
/// more, else it is lost.
class HeavyKeys final : public ChosenKeys {
public:
    HeavyKeys(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options, QueryRing ring);

    Result<AttendedKeys> keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) override;
    std::span<const std::vector<int32_t>> chosen(int layer) const override { return sums_->chosen(layer); }

private:
    void serve(Choice& choice) override;
    int64_t first_needed() const override { return sums_->first_needed(); }
    void count_step(const SequenceKv& kv) override;
    Status leave_window(int layer, const SequenceKv& kv);
    Status add(int layer, const ScoreArgs& step, const AttendedKeys& attended, const SequenceKv& kv);

    std::unique_ptr<HeavySums> sums_;  // once a choice serves
    Buffer weights_;                   // [kv_heads, columns] f32
};

}  // namespace rondo
