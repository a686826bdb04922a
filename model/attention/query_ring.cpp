#include "model/attention/query_ring.hpp"

#include <algorithm>
#include <cmath>

namespace rondo {

Result<QueryRing> QueryRing::create(const ModelSpec& spec, const KvPool& pool, Device& device, int64_t rows,
                                    int together) {
    QueryRing made(spec, pool, device, together == 0 ? 0 : rows);
    if (together == 0) return made;
    const auto row_bytes = static_cast<size_t>(made.columns()) * sizeof(float);
    RONDO_ASSIGN(made.ring_, device.allocate(static_cast<size_t>(spec.layers * rows) * row_bytes));
    RONDO_ASSIGN(made.queries_, device.allocate(static_cast<size_t>(together) * row_bytes));
    return made;
}

Status QueryRing::keep(Device& device, int layer, const Tensor& q, int64_t keys) {
    if (rows_ == 0) return Status::ok();
    const int64_t kept = std::min(q.rows, rows_), first = keys - q.rows;
    Kept& range = kept_[static_cast<size_t>(layer)];
    // Behind a rewind stand those that later ones have not taken the places of; behind a gap (a prompt's known
    // beginning) none.
    if (first < range.end) range.from = std::min(std::max(range.from, range.end - rows_), first);
    if (first > range.end || kept < q.rows) range.from = keys - kept;
    range.end = keys;
    const size_t bytes = static_cast<size_t>(q.columns) * sizeof(float);
    for (int64_t i = q.rows - kept; i < q.rows; ++i) {
        const int64_t key = keys - q.rows + i;
        float* const to = ring_.as<float>() + (layer * rows_ + key % rows_) * q.columns;
        RONDO_TRY(device.copy(to, q.row<float>(i), bytes, StreamId::compute));
    }
    return Status::ok();
}

Status QueryRing::locate(const SequenceKv& kv) {
    std::vector<int32_t>& table = blocks_.host();
    table.clear();
    for (const LayerGroup group : layer_groups) {
        const auto begins = kv.block_begin(group), blocks = kv.blocks(group);
        located_[group] = std::ssize(table);
        table.push_back(static_cast<int32_t>(blocks.size()));
        table.insert(table.end(), begins.begin(), begins.end());
        table.insert(table.end(), blocks.begin(), blocks.end());
    }
    return blocks_.send(*device_);
}

Result<ScoreArgs> QueryRing::score_args(int layer, int64_t keys, std::span<const int32_t> query_keys) {
    std::vector<int32_t>& rows = ring_rows_.host();
    rows.clear();
    for (const int32_t key : query_keys) rows.push_back(static_cast<int32_t>(layer * rows_ + key % rows_));
    row_keys_.host().assign(query_keys.begin(), query_keys.end());
    RONDO_TRY(ring_rows_.send(*device_));
    RONDO_TRY(row_keys_.send(*device_));
    ScoreArgs args;
    args.q = Tensor::of(queries_.data(), DType::f32, std::ssize(query_keys), columns());
    const Tensor ring = Tensor::of(ring_.data(), DType::f32, spec_->layers * rows_, columns());
    RONDO_TRY(device_->ops().take_rows(args.q, ring, ring_rows_.data()));
    args.heads = spec_->heads;
    args.kv = pool_->layer(layer);
    const int64_t located = located_[pool_->shape().group_of(layer)];
    const int64_t blocks = blocks_.host()[static_cast<size_t>(located)];
    args.sequence.sequences = 1;
    args.sequence.block_count = blocks_.data() + located;
    args.sequence.block_begin = args.sequence.block_count + 1;
    args.sequence.blocks = args.sequence.block_begin + blocks + 1;
    args.sequence.blocks_stride = blocks + 1;
    args.row_keys = row_keys_.data();
    args.keys = keys;
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_->head_dim)));
    return args;
}

}  // namespace rondo
