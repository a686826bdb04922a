#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/device_table.hpp"
#include "memory/kv_pool.hpp"
#include "memory/sequence_kv.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// The last queries of one sequence, by layer, ready to be scored against its keys.
class QueryRing {
public:
    /// Keeps the queries of the last `rows` keys; at most `together` of them are looked at at once.
    static Result<QueryRing> create(const ModelSpec& spec, const KvPool& pool, Device& device, int64_t rows,
                                    int together);

    /// Keeps the last rows of a layer's queries, on whatever device of this memory they were computed; `q` are rows of
    /// this sequence, the last one its newest key, of `keys`.
    Status keep(Device& device, int layer, const Tensor& q, int64_t keys);
    /// Of a layer: the first key from which on queries were kept without a gap (though only the last are still there).
    int64_t kept_from(int layer) const { return kept_[static_cast<size_t>(layer)].from; }

    /// Sends where a sequence's keys lie now, for the scores that are asked for next.
    Status locate(const SequenceKv& kv);
    /// The kept queries of these keys, to be scored against the first `keys` keys.
    Result<ScoreArgs> score_args(int layer, int64_t keys, std::span<const int32_t> query_keys);

private:
    QueryRing(const ModelSpec& spec, const KvPool& pool, Device& device, int64_t rows)
        : spec_(&spec), pool_(&pool), device_(&device), rows_(rows), kept_(static_cast<size_t>(spec.layers)) {}
    int64_t columns() const { return int64_t{spec_->heads} * spec_->head_dim; }

    const ModelSpec* spec_;
    const KvPool* pool_;
    Device* device_;
    int64_t rows_;
    Buffer ring_;     // [layers, rows, H·d] f32: the queries of key k at row k mod rows
    Buffer queries_;  // [together, H·d] f32: those that score
    DeviceTable<int32_t> ring_rows_, row_keys_, blocks_;
    PerGroup<int64_t> located_;  // in blocks_: a group's number of blocks, their borders and the blocks
    struct Kept {
        int64_t from = 0, end = 0;  // keys whose queries were kept one after the other
    };
    std::vector<Kept> kept_;  // by layer
};

}  // namespace rondo
