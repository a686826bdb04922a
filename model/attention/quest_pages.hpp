#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/device_table.hpp"
#include "memory/kv_pool.hpp"
#include "model/attention/policies/decode_selection/quest.hpp"
#include "model/attention/step_attention.hpp"

namespace rondo {

/// Quest: before each step of each layer, the pages of keys that the step's row attends to, by bounds on what their
/// keys can score (policies/decode_selection/quest.hpp). A page is a block of the sequence, which a round may have left
/// partly filled. Keys stay where they lie.
///
/// Bounds are read from the pool: of a prompt at the first step that needs them, then key by key. Host work, so the
/// pool must be in the host's memory.
class QuestPages final : public StepAttention {
public:
    static Result<std::unique_ptr<QuestPages>> create(const ModelSpec& spec, const KvPool& pool, Device& device,
                                                      int64_t budget_keys);

    Result<AttendedKeys> keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) override;
    void after_prefill(Device& device, const SequenceKv& kv) override;
    void before_step(SequenceKv& kv) override;
    void after_step(const SequenceKv& kv) override;
    void after_last_step(const SequenceKv& kv) override { after_step(kv); }
    /// Nothing is known of the keys any more.
    void reset() override;

    bool serving() const override { return stats_.bounds_read > 0; }
    bool ranges_of_step(int layer, int kv_head, const SequenceKv& kv, const OnRange& on_range) const override;
    /// Of the bounds that are known, which each step that chooses reads.
    int64_t bytes_beside() const override;
    /// Keys that the last step attended to, by layer and KV head.
    int64_t attended() const { return attended_; }

private:
    struct Bounds {
        std::vector<float> lowest, highest;  // [pages, head_dim]
    };
    struct Layer {
        int64_t keys = 0;  // whose bounds are known
        std::vector<Bounds> heads;
        std::vector<std::vector<int32_t>> pages;  // of the last step by KV head, ascending; empty: all
    };
    struct PerHead {
        RankScratch ranks;
        std::vector<float> on_lowest, on_highest, scores;
    };
    QuestPages(const ModelSpec& spec, const KvPool& pool, Device& device, int64_t budget_keys);
    Status extend(int layer, const SequenceKv& kv);
    void choose_for_head(Layer& layer, int head, std::span<const float> queries);
    AttendedKeys mark(int layer, const SequenceKv& kv);

    const KvPool* pool_;
    Device* device_;
    int group_;  // query heads of a KV head
    int64_t budget_;
    std::vector<Layer> layers_;
    std::vector<PerHead> scratch_;  // by KV head
    DeviceTable<KvEntry> entries_;  // [kv_heads, pages but the last]
    DeviceTable<int32_t> counts_;   // [kv_heads]
    DeviceTable<int32_t> slots_;
    std::vector<int32_t> page_of_;  // of the keys in slots_
    Buffer keys_, values_;          // of those keys, [some, kv_heads · head_dim] f32
    int64_t attended_ = 0;
    bool chose_ = false;  // in the last step
};

}  // namespace rondo
