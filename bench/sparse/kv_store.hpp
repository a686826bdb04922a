#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/ops.hpp"

namespace rondo::bench {

/// Ends the program where an op failed.
void expect(const Status& status);

/// Random numbers of mean 0 and variance 1; the same for the same seed.
std::vector<float> random_floats(int64_t count, uint32_t seed);

/// How far results are from the right ones.
struct Deviation {
    double difference = 0.0;
    double norm = 0.0;

    void add(double got, double wanted) {
        difference += (got - wanted) * (got - wanted);
        norm += wanted * wanted;
    }
    void add(const Deviation& other) {
        difference += other.difference;
        norm += other.norm;
    }
    /// ‖Δ‖ / ‖reference‖
    double relative() const { return std::sqrt(difference / norm); }
};

/// The attention of a model.
struct AttentionShape {
    const char* name;
    int heads;
    int kv_heads;
    int head_dim;

    int group() const { return heads / kv_heads; }
    int64_t columns() const { return int64_t{heads} * head_dim; }
};

/// Layers of random keys and values in bf16, all layers the same ones, laid out as in a KvPool: a block holds its 16
/// tokens of all layers, so a layer's keys lie far apart. Behind them there is room for copies of as many.
class KvStore {
public:
    /// As many layers of `keys` keys, whole blocks, as `bytes` hold.
    KvStore(Device& device, const AttentionShape& shape, int64_t keys, size_t bytes);

    Device& device() const { return device_; }
    const AttentionShape& shape() const { return shape_; }
    int64_t keys() const { return keys_; }
    int layers() const { return layers_; }
    KvAtom atom() const { return {DType::bf16, shape_.head_dim}; }
    KvLayer layer(int layer) const;

    /// Atoms are counted from here.
    std::byte* atoms() const { return pool_.as<std::byte>(); }
    int32_t atom_of(int64_t block, int layer, int kv_head) const {
        return static_cast<int32_t>((block * layers_ + layer) * shape_.kv_heads + kv_head);
    }
    /// Atoms [copies, 2 copies) are for copies.
    int32_t copies() const { return atom_of(keys_ / kv_block_tokens, 0, 0); }

    /// As they were before bf16, [head_dim].
    const float* key(int64_t key, int kv_head) const { return &k_[at(key, kv_head)]; }
    const float* value(int64_t key, int kv_head) const { return &v_[at(key, kv_head)]; }

private:
    size_t at(int64_t key, int kv_head) const {
        return static_cast<size_t>((key * shape_.kv_heads + kv_head) * shape_.head_dim);
    }

    Device& device_;
    AttentionShape shape_;
    int64_t keys_;
    int layers_ = 0;
    Buffer pool_;
    std::vector<float> k_, v_;
};

/// Keys [first_key, first_key + keys) of one layer as a sequence, whose last `rows` are new.
class Context {
public:
    Context(const KvStore& store, int layer, int64_t first_key, int64_t keys, int64_t rows);

    const KvStore& store() const { return *store_; }
    int64_t keys() const { return kv_length_; }
    int64_t rows() const { return row_begin_[1]; }
    int64_t first_row() const { return keys() - rows(); }
    std::span<const int32_t> block_begin() const { return begins_; }
    /// Where a key lies: its token, counted from the store's atoms.
    int32_t slot_of(int64_t key, int kv_head) const;

    AttendArgs attend_args(const Tensor& q, const Tensor& out) const;
    ScoreArgs score_args(const Tensor& q, const int32_t* row_keys) const;

    /// The softmax of a row of q over some keys, in double.
    std::vector<double> weights(const Tensor& q, int64_t row, int head, std::span<const int32_t> keys) const;
    /// Compares one row and head of a result with attention to these keys.
    void compare(const AttendArgs& args, int64_t row, int head, std::span<const int32_t> keys, Deviation& sum) const;

private:
    SequenceTables tables() const;

    const KvStore* store_;
    int layer_;
    int64_t first_key_;
    std::array<int32_t, 2> row_begin_;
    int32_t kv_length_;
    int32_t block_count_;
    std::vector<int32_t> ids_, begins_;
};

}  // namespace rondo::bench
