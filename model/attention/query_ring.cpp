#include "model/attention/query_ring.hpp"

#include <algorithm>
#include <cassert>

namespace rondo {

Result<QueryRing> QueryRing::create(const ModelSpec& spec, Device& device, int64_t rows) {
    QueryRing made(spec, rows);
    if (rows == 0) return made;
    const auto floats = static_cast<size_t>(spec.layers * rows * made.columns_);
    RONDO_ASSIGN(made.ring_, device.allocate(floats * sizeof(float)));
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
    const size_t bytes = static_cast<size_t>(columns_) * sizeof(float);
    for (int64_t i = q.rows - kept; i < q.rows; ++i)
        RONDO_TRY(device.copy(row(layer, keys - q.rows + i), q.row<float>(i), bytes, StreamId::compute));
    return Status::ok();
}

Status QueryRing::copy(Device& device, int layer, int64_t key, float* to) const {
    const Kept& range = kept_[static_cast<size_t>(layer)];
    assert(key >= range.from && key >= range.end - rows_ && key < range.end);
    return device.copy(to, row(layer, key), static_cast<size_t>(columns_) * sizeof(float), StreamId::compute);
}

}  // namespace rondo
