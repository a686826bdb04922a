#include "sparse/kv_store.hpp"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

namespace rondo::bench {

void expect(const Status& status) {
    if (status.is_ok()) return;
    std::fprintf(stderr, "bench_sparse: %s\n", status.error().message.c_str());
    std::exit(1);
}

std::vector<float> random_floats(int64_t count, uint32_t seed) {
    std::vector<float> floats(static_cast<size_t>(count));
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-std::sqrt(3.0F), std::sqrt(3.0F));
    for (float& value : floats) value = uniform(random);
    return floats;
}

KvStore::KvStore(Device& device, const AttentionShape& shape, int64_t keys, size_t bytes)
    : device_(device), shape_(shape), keys_(keys) {
    assert(keys % kv_block_tokens == 0 && shape.heads % shape.kv_heads == 0);
    const size_t layer_bytes = static_cast<size_t>(keys / kv_block_tokens * shape.kv_heads) * atom().bytes();
    layers_ = static_cast<int>(std::max<size_t>(1, bytes / layer_bytes));
    Result<Buffer> memory = device.allocate(2 * layer_bytes * static_cast<size_t>(layers_));
    expect(memory.status());
    pool_ = std::move(memory).value();
    const int64_t columns = int64_t{shape.kv_heads} * shape.head_dim;
    k_ = random_floats(keys * columns, 1);
    v_ = random_floats(keys * columns, 2);
    std::vector<int32_t> slots(static_cast<size_t>(keys));
    std::iota(slots.begin(), slots.end(), 0);
    for (int l = 0; l < layers_; ++l) {
        expect(device.ops().append_kv(layer(l), Tensor::of(k_.data(), DType::f32, keys, columns),
                                      Tensor::of(v_.data(), DType::f32, keys, columns), slots.data()));
    }
}

KvLayer KvStore::layer(int layer) const {
    const size_t of_a_layer = static_cast<size_t>(shape_.kv_heads) * atom().bytes();
    return {atoms() + static_cast<size_t>(layer) * of_a_layer, static_cast<size_t>(layers_) * of_a_layer,
            shape_.kv_heads, atom()};
}

Context::Context(const KvStore& store, int layer, int64_t first_key, int64_t keys, int64_t rows)
    : store_(&store),
      layer_(layer),
      first_key_(first_key),
      row_begin_{0, static_cast<int32_t>(rows)},
      kv_length_(static_cast<int32_t>(keys)),
      block_count_(static_cast<int32_t>(keys / kv_block_tokens)) {
    assert(first_key % kv_block_tokens == 0 && keys % kv_block_tokens == 0 && first_key + keys <= store.keys());
    for (int32_t block = 0; block <= block_count_; ++block) {
        ids_.push_back(static_cast<int32_t>(first_key / kv_block_tokens) + block);
        begins_.push_back(block * kv_block_tokens);
    }
}

int32_t Context::slot_of(int64_t key, int kv_head) const {
    const auto block = static_cast<size_t>(key / kv_block_tokens);
    return store_->atom_of(ids_[block], layer_, kv_head) * kv_block_tokens +
           static_cast<int32_t>(key % kv_block_tokens);
}

SequenceTables Context::tables() const {
    return {1,           row_begin_[1], int64_t{block_count_} + 1, row_begin_.data(), &kv_length_, &block_count_,
            ids_.data(), begins_.data()};
}

AttendArgs Context::attend_args(const Tensor& q, const Tensor& out) const {
    AttendArgs args;
    args.q = q;
    args.out = out;
    args.heads = store_->shape().heads;
    args.kv = store_->layer(layer_);
    args.sequences = tables();
    args.scale = 1.0F / std::sqrt(static_cast<float>(store_->shape().head_dim));
    args.rows = rows() == 1 ? Rows::invariant : Rows::bulk;
    return args;
}

ScoreArgs Context::score_args(const Tensor& q, const int32_t* row_keys) const {
    const AttendArgs like = attend_args(q, {});
    return {q, like.heads, like.kv, like.sequences, row_keys, keys(), like.scale};
}

std::vector<double> Context::weights(const Tensor& q, int64_t row, int head, std::span<const int32_t> keys) const {
    const AttentionShape& shape = store_->shape();
    const float* const query = q.row<const float>(row) + head * shape.head_dim;
    std::vector<double> weights;
    weights.reserve(keys.size());
    double total = 0.0;
    for (const int32_t each : keys) {
        const float* const key = store_->key(first_key_ + each, head / shape.group());
        double dot = 0.0;
        for (int c = 0; c < shape.head_dim; ++c) dot += double{query[c]} * key[c];
        weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(shape.head_dim))));
        total += weights.back();
    }
    for (double& weight : weights) weight /= total;
    return weights;
}

void Context::compare(const AttendArgs& args, int64_t row, int head, std::span<const int32_t> keys,
                      Deviation& sum) const {
    const AttentionShape& shape = store_->shape();
    const std::vector<double> weight = weights(args.q, row, head, keys);
    std::vector<double> wanted(static_cast<size_t>(shape.head_dim));
    for (size_t i = 0; i < keys.size(); ++i) {
        const float* const value = store_->value(first_key_ + keys[i], head / shape.group());
        for (size_t c = 0; c < wanted.size(); ++c) wanted[c] += weight[i] * value[c];
    }
    const float* const got = args.out.row<const float>(row) + head * shape.head_dim;
    for (size_t c = 0; c < wanted.size(); ++c) sum.add(got[c], wanted[c]);
}

}  // namespace rondo::bench
