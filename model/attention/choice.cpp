#include "model/attention/choice.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "config/mix_bits.hpp"
#include "config/stopwatch.hpp"
#include "kernels/device_buffer.hpp"

namespace rondo {

namespace {

uint64_t mixed(uint64_t seed, uint64_t value) {
    return mix_bits(seed + mix_step * (value + 1));
}

}  // namespace

Choice::Choice(const ModelSpec& spec, KvPool& pool, Device& device)
    : spec_(&spec),
      pool_(&pool),
      device_(&device),
      kv_(pool),
      query_counts_(static_cast<size_t>(spec.layers), 0),
      selected_(pool, device),
      lists_(std::make_shared<KeyLists>(spec)) {}

void Choice::clear() {
    selected_.clear();
    kv_ = SequenceKv(*pool_);
    how_ = {};
    begun_ = Status::ok();
    scored_ = chosen_layers_ = gathered_ = 0;
    if (lists_ == nullptr) lists_ = std::make_shared<KeyLists>(*spec_);
    lists_->tokens = 0;
    lists_->keys = {};
    sums_.reset();
    stats_ = {};
    masses_.clear();
}

void Choice::begin(How how, Device& device, const SequenceKv& kv, const QueryRing& ring) {
    clear();
    how_ = std::move(how);
    kv_ = kv.share();
    lists_->tokens = kv.tokens();
    for (const LayerGroup group : layer_groups) lists_->keys[group] = kv.tokens(group);
    if (how_.method->accumulates()) sums_ = std::make_unique<HeavySums>(*spec_);
    const Stopwatch watch(stats_.score_seconds);
    begun_ = copy_queries(device, ring);
}

Status Choice::copy_queries(Device& device, const QueryRing& ring) {
    const int queries = how_.method->queries();
    if (queries == 0) return Status::ok();
    const int64_t columns = int64_t{spec_->heads} * spec_->head_dim;
    const auto rows = static_cast<size_t>(spec_->layers * queries);
    RONDO_TRY(grow(device, queries_, rows * static_cast<size_t>(columns) * sizeof(float)));
    RONDO_TRY(query_keys_.reserve(*device_, rows));  // sent there, whichever device has computed the queries
    query_keys_.host().assign(rows, 0);
    for (int layer = 0; layer < spec_->layers; ++layer) {
        int64_t& count = query_counts_[static_cast<size_t>(layer)];
        count = 0;
        for (int q = queries - 1; q >= 0; --q) {
            const int64_t token = tokens() - 1 - int64_t{q} * how_.observe_every;
            if (token < ring.kept_from(layer)) continue;
            const int64_t at = int64_t{layer} * queries + count++;
            query_keys_.host()[static_cast<size_t>(at)] =
                static_cast<int32_t>(kv_.key_of(pool_->shape().group_of(layer), token));
            RONDO_TRY(ring.copy(device, layer, token, queries_.as<float>() + at * columns));
        }
    }
    return Status::ok();
}

Status Choice::on_device(int layers) {
    RONDO_TRY(begun_);
    {
        const Stopwatch watch(stats_.gather_seconds);
        RONDO_TRY(gather());
    }
    if (complete()) {
        kv_ = SequenceKv(*pool_);  // where nothing was copied, the sequence's own blocks are attended to
        return Status::ok();
    }
    const Stopwatch watch(stats_.score_seconds);
    return score(std::min(layers, layers_to_score()));
}

Status Choice::gather() {
    for (; gathered_ < chosen_layers_; ++gathered_) {
        const auto chosen = std::as_const(*lists_).of(gathered_);
        // Without room for copies a view does as well, if more slowly; keys that are to be given up must be copied.
        if (gathered_ == 0)
            place_ = how_.method->evicts() || selected_.blocks_short(chosen) == BlockCounts{}
                         ? ChosenKv::Place::copied
                         : ChosenKv::Place::where_they_lie;
        Status set = selected_.set_layer(gathered_, kv_, chosen, place_);
        if (!set && place_ == ChosenKv::Place::copied && !how_.method->evicts()) {  // others took the room meanwhile
            place_ = ChosenKv::Place::where_they_lie;
            set = selected_.set_layer(gathered_, kv_, chosen, place_);
        }
        RONDO_TRY(set);
    }
    return Status::ok();
}

Status Choice::score(int layers) {
    if (layers <= 0 || how_.method->queries() == 0) {
        scored_ += std::max(layers, 0);
        return Status::ok();
    }
    if (scored_ == 0) RONDO_TRY(send_tables());
    const int64_t floats = floats_of(scored_, scored_ + layers);
    RONDO_TRY(grow(*device_, scores_, static_cast<size_t>(floats) * sizeof(float)));
    for (int layer = scored_; layer < scored_ + layers; ++layer) {
        float* const to = scores_.as<float>() + floats_of(scored_, layer);
        RONDO_TRY(
            device_->ops().score_keys(Tensor::of(to, DType::f32, spec_->kv_heads, keys(layer)), score_args(layer)));
    }
    stats_.keys_scored += floats;
    weights_ = {scores_.as<float>(), static_cast<size_t>(floats)};
    if (!device_->computes_in_host_memory()) {
        host_scores_.resize(weights_.size());
        RONDO_TRY(device_->copy(host_scores_.data(), scores_.data(), weights_.size_bytes(), StreamId::compute));
        weights_ = host_scores_;
    }
    scored_ += layers;
    return Status::ok();
}

int64_t Choice::floats_of(int first, int end) const {
    int64_t floats = 0;
    for (int layer = first; layer < end; ++layer) floats += spec_->kv_heads * keys(layer);
    return floats;
}

Status Choice::send_tables() {
    std::vector<int32_t>& table = blocks_.host();
    table.clear();
    for (const LayerGroup group : layer_groups) {
        const auto begins = kv_.block_begin(group), blocks = kv_.blocks(group);
        located_[group] = std::ssize(table);
        table.push_back(static_cast<int32_t>(blocks.size()));
        table.insert(table.end(), begins.begin(), begins.end());
        table.insert(table.end(), blocks.begin(), blocks.end());
    }
    RONDO_TRY(query_keys_.send(*device_));
    return blocks_.send(*device_);
}

ScoreArgs Choice::score_args(int layer) const {
    const int64_t first = int64_t{layer} * how_.method->queries(), columns = int64_t{spec_->heads} * spec_->head_dim;
    const int64_t rows = query_counts_[static_cast<size_t>(layer)];
    const int64_t located = located_[pool_->shape().group_of(layer)];
    const int64_t blocks = blocks_.host()[static_cast<size_t>(located)];
    ScoreArgs args;
    args.q = Tensor::of(queries_.as<float>() + first * columns, DType::f32, rows, columns);
    args.heads = spec_->heads;
    args.kv = pool_->layer(layer);
    args.sequence.sequences = 1;
    args.sequence.block_count = blocks_.data() + located;
    args.sequence.block_begin = args.sequence.block_count + 1;
    args.sequence.blocks = args.sequence.block_begin + blocks + 1;
    args.sequence.blocks_stride = blocks + 1;
    args.row_keys = query_keys_.data() + first;
    args.keys = keys(layer);
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_->head_dim)));
    return args;
}

/// Known once the first layer's keys are chosen, and of use before they are copied.
BlockCounts Choice::blocks_short() const {
    if (chosen_layers_ == 0 || gathered_ > 0) return {};
    return selected_.blocks_short(std::as_const(*lists_).of(0));
}

std::span<const float> Choice::weights_of(int layer) const {
    if (how_.method->queries() == 0) return {};
    return weights_.subspan(static_cast<size_t>(floats_of(chosen_layers_, layer)),
                            static_cast<size_t>(floats_of(layer, layer + 1)));
}

void Choice::on_host(const RunTasks& run_tasks) {
    const int layers = scored_ - chosen_layers_;
    if (layers == 0) return;
    const Stopwatch watch(stats_.select_seconds);
    run_tasks(layers, [&](int64_t i) {
        const auto layer = chosen_layers_ + static_cast<int>(i);
        const uint64_t seed = mixed(mixed(how_.seed, static_cast<uint64_t>(tokens())), static_cast<uint64_t>(layer));
        const int64_t keys = this->keys(layer);
        const KeyScores scores{spec_->kv_heads, keys, weights_of(layer)};
        const std::span<std::vector<int32_t>> chosen = lists_->of(layer);
        how_.method->select(scores, seed, chosen);
        if (sums_) sums_->begin(layer, scores, chosen, how_.method->tail_begin(keys, keys));
    });
    if (how_.method->queries() > 0) {
        for (int i = 0; i < layers; ++i) masses_.push_back(mass_of(chosen_layers_ + i));
    }
    chosen_layers_ = scored_;
}

double Choice::mass_of(int layer) const {
    const KeyLists& holds = how_.before == nullptr ? *lists_ : *how_.before;
    const int64_t keys = this->keys(layer);
    const int64_t tail_begin = how_.method->tail_begin(holds.keys[pool_->shape().group_of(layer)], keys);
    const std::span<const float> weights = weights_of(layer);
    double held = 0.0;
    for (int head = 0; head < spec_->kv_heads; ++head) {
        const auto of_head = weights.subspan(static_cast<size_t>(head * keys), static_cast<size_t>(keys));
        for (const int32_t key : holds.of(layer)[static_cast<size_t>(head)])
            held += static_cast<double>(of_head[static_cast<size_t>(key)]);
        const auto tail = of_head.subspan(static_cast<size_t>(tail_begin));
        held += std::accumulate(tail.begin(), tail.end(), 0.0);
    }
    return held / (static_cast<double>(query_counts_[static_cast<size_t>(layer)]) * spec_->kv_heads);
}

void Choice::count_into(StepAttentionStats& stats) {
    stats += std::exchange(stats_, {});
    for (const double mass : masses_) stats.mass += mass;
    stats.masses += std::ssize(masses_);
    masses_.clear();
}

void Choice::swap_result(std::shared_ptr<KeyLists>& lists, ChosenKv& kv) {
    assert(complete());
    how_.before.reset();
    assert(lists.use_count() <= 1);
    std::swap(lists_, lists);
    std::swap(selected_, kv);
}

}  // namespace rondo
