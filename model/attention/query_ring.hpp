#pragma once

#include <cstdint>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// The last queries of one sequence, by layer, ready to be looked at by a choice of keys.
class QueryRing {
public:
    /// Keeps the queries of the last `rows` keys; with 0 none.
    static Result<QueryRing> create(const ModelSpec& spec, Device& device, int64_t rows);

    /// Keeps the last of a layer's queries. `q` are rows of this sequence; the last row is that of the newest of its
    /// `keys` keys. `device` is the one that computed them, any one of this memory.
    Status keep(Device& device, int layer, const Tensor& q, int64_t keys);
    /// Of a layer: the first key from which on queries were kept without a gap (though only the last are still there).
    int64_t kept_from(int layer) const { return kept_[static_cast<size_t>(layer)].from; }
    /// Copies the query of a key that is among the last ones to `to` [H·d].
    Status copy(Device& device, int layer, int64_t key, float* to) const;

private:
    QueryRing(const ModelSpec& spec, int64_t rows)
        : rows_(rows), columns_(int64_t{spec.heads} * spec.head_dim), kept_(static_cast<size_t>(spec.layers)) {}
    float* row(int layer, int64_t key) const { return ring_.as<float>() + (layer * rows_ + key % rows_) * columns_; }

    int64_t rows_, columns_;
    Buffer ring_;  // [layers, rows, H·d] f32: the queries of key k at row k mod rows
    struct Kept {
        int64_t from = 0, end = 0;  // keys whose queries were kept one after the other
    };
    std::vector<Kept> kept_;  // by layer
};

}  // namespace rondo
