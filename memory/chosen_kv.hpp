#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/ops.hpp"
#include "memory/device_table.hpp"
#include "memory/kv_pool.hpp"
#include "memory/sequence_kv.hpp"

namespace rondo {

/// The keys of a sequence that were chosen for each layer and KV head, as the entries kernels attend to. They are
/// copied together into atoms of their own: a decode step streams through these, and the sequence's blocks may go.
/// Where the pool has no room for copies, the keys are marked where they lie.
class ChosenKv {
public:
    ChosenKv(KvPool& pool, Device& device);

    /// Nothing is chosen; atoms go back to the pool.
    void clear();
    enum class Place { copied, where_they_lie };
    /// Chooses for one layer: `chosen[h]` are key numbers of `kv` in the layer's group, ascending. With `copied` a pool
    /// without room is an error, and nothing has changed.
    Status set_layer(int layer, const SequenceKv& kv, std::span<const std::vector<int32_t>> chosen, Place place);
    /// Of a layer whose keys were copied: `key` takes the place of KV head h's chosen[h][places[h]]; a place below 0
    /// leaves a head as it is.
    Status replace(int layer, const SequenceKv& kv, int32_t key, std::span<const int32_t> places);
    /// Where the copy of KV head h's chosen[h][place] stands: a slot (atom·16 + token) counted from the group's atoms.
    int32_t slot_of_copy(int layer, int head, int32_t place) const;
    /// Blocks that must be free before the keys of all layers are copied; none if they are free. Each layer is taken to
    /// choose as many keys as `chosen` has. Some blocks more are counted for the sequences that go on.
    BlockCounts blocks_short(std::span<const std::vector<int32_t>> chosen) const;
    /// What a row of this sequence attends to in a layer: the chosen keys, and all from `tail_begin` on.
    AttendedKeys keys(int layer, int64_t tail_begin) const;

    int64_t blocks_held() const;
    /// Keys chosen in all layers and KV heads.
    int64_t keys_chosen() const { return keys_chosen_; }

private:
    struct Layer {
        DeviceTable<KvEntry> entries;  // [kv_heads, stride]
        DeviceTable<int32_t> counts;   // [kv_heads]
        int32_t stride = 0;
    };
    Status take_atoms(LayerGroup group, size_t count, std::vector<int32_t>& atoms);
    Status copy_keys(int layer, const SequenceKv& kv, std::span<const std::vector<int32_t>> chosen);
    Status mark_keys(int layer, const SequenceKv& kv, std::span<const std::vector<int32_t>> chosen);
    static int32_t source_slot(const KvPool& pool, const SequenceKv& kv, int layer, int head, int32_t key,
                               size_t& block);

    KvPool* pool_;
    Device* device_;
    std::vector<Layer> layers_;
    PerGroup<KvLease> leases_;
    PerGroup<int32_t> atoms_used_;
    int64_t keys_chosen_ = 0;
    DeviceTable<int32_t> from_, to_;
    std::vector<int32_t> atoms_;
};

}  // namespace rondo
