#include "model/attention/key_selection.hpp"

#include <algorithm>
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

SelectionStats& SelectionStats::operator+=(const SelectionStats& other) {
    selections += other.selections;
    given_up += other.given_up;
    keys_scored += other.keys_scored;
    bounds_read += other.bounds_read;
    keys_chosen += other.keys_chosen;
    blocks_held += other.blocks_held;
    attended += other.attended;
    causal += other.causal;
    mass += other.mass;
    masses += other.masses;
    score_seconds += other.score_seconds;
    select_seconds += other.select_seconds;
    gather_seconds += other.gather_seconds;
    return *this;
}

KeySelection::KeySelection(const ModelSpec& spec, KvPool& pool, Device& device)
    : spec_(&spec),
      device_(&device),
      kv_(pool, device),
      chosen_(static_cast<size_t>(spec.layers * spec.kv_heads)),
      queries_(static_cast<size_t>(spec.layers), 0.0) {}

void KeySelection::clear() {
    kv_.clear();
    scored_ = chosen_layers_ = gathered_ = 0;
    keys_ = 0;
    before_ = nullptr;
}

void KeySelection::begin(const How& how, int64_t keys, const KeySelection* before) {
    clear();
    how_ = how;
    keys_ = keys;
    before_ = before;
}

std::span<std::vector<int32_t>> KeySelection::chosen_of(int layer) {
    return std::span(chosen_).subspan(static_cast<size_t>(layer * spec_->kv_heads),
                                      static_cast<size_t>(spec_->kv_heads));
}

std::span<const std::vector<int32_t>> KeySelection::chosen(int layer) const {
    return std::span(chosen_).subspan(static_cast<size_t>(layer * spec_->kv_heads),
                                      static_cast<size_t>(spec_->kv_heads));
}

Status KeySelection::on_device(const SequenceKv& kv, QueryRing& ring, int layers, SelectionStats& stats) {
    {
        const Stopwatch watch(stats.gather_seconds);
        RONDO_TRY(gather(kv));
    }
    const Stopwatch watch(stats.score_seconds);
    return score(kv, ring, std::min(layers, layers_to_score()), stats);
}

Status KeySelection::gather(const SequenceKv& kv) {
    for (; gathered_ < chosen_layers_; ++gathered_) {
        const auto chosen = chosen_of(gathered_);
        // Without room for copies a view does as well, if more slowly; keys that are to be given up must be copied.
        if (gathered_ == 0)
            place_ = how_.method->evicts() || kv_.blocks_short(chosen) == BlockCounts{}
                         ? SelectedKv::Place::copied
                         : SelectedKv::Place::where_they_lie;
        Status set = kv_.set_layer(gathered_, kv, chosen, place_);
        if (!set && place_ == SelectedKv::Place::copied && !how_.method->evicts()) {  // others took the room meanwhile
            place_ = SelectedKv::Place::where_they_lie;
            set = kv_.set_layer(gathered_, kv, chosen, place_);
        }
        RONDO_TRY(set);
    }
    return Status::ok();
}

Status KeySelection::score(const SequenceKv& kv, QueryRing& ring, int layers, SelectionStats& stats) {
    const int queries = how_.method->queries();
    if (layers <= 0 || queries == 0) {
        scored_ += std::max(layers, 0);
        return Status::ok();
    }
    const int64_t floats = spec_->kv_heads * keys_;
    RONDO_TRY(ring.locate(kv));
    RONDO_TRY(grow(*device_, scores_, static_cast<size_t>(layers * floats) * sizeof(float)));
    for (int i = 0; i < layers; ++i) {
        const int layer = scored_ + i;
        query_keys_.clear();
        for (int q = queries - 1; q >= 0; --q) {
            const int64_t key = keys_ - 1 - int64_t{q} * how_.observe_every;
            if (key >= ring.kept_from(layer)) query_keys_.push_back(static_cast<int32_t>(key));
        }
        queries_[static_cast<size_t>(layer)] = static_cast<double>(query_keys_.size());
        RONDO_ASSIGN(const ScoreArgs args, ring.score_args(layer, keys_, query_keys_));
        float* const to = scores_.as<float>() + i * floats;
        RONDO_TRY(device_->ops().score_keys(Tensor::of(to, DType::f32, spec_->kv_heads, keys_), args));
    }
    stats.keys_scored += layers * floats;
    weights_ = {scores_.as<float>(), static_cast<size_t>(layers * floats)};
    if (!device_->computes_in_host_memory()) {
        host_scores_.resize(weights_.size());
        RONDO_TRY(device_->copy(host_scores_.data(), scores_.data(), weights_.size_bytes(), StreamId::compute));
        weights_ = host_scores_;
    }
    scored_ += layers;
    return Status::ok();
}

/// Known once the first layer's keys are chosen, and of use before they are copied.
BlockCounts KeySelection::blocks_short() const {
    return chosen_layers_ > 0 && gathered_ == 0 ? kv_.blocks_short(chosen(0)) : BlockCounts{};
}

std::span<const float> KeySelection::weights_of(int layer) const {
    if (how_.method->queries() == 0) return {};
    const auto floats = static_cast<size_t>(spec_->kv_heads * keys_);
    return weights_.subspan(static_cast<size_t>(layer - chosen_layers_) * floats, floats);
}

void KeySelection::on_host(const RunTasks& run_tasks, SelectionStats& stats) {
    const int layers = scored_ - chosen_layers_;
    if (layers == 0) return;
    const Stopwatch watch(stats.select_seconds);
    run_tasks(layers, [&](int64_t i) {
        const auto layer = chosen_layers_ + static_cast<int>(i);
        const uint64_t seed = mixed(mixed(how_.seed, static_cast<uint64_t>(keys_)), static_cast<uint64_t>(layer));
        const KeyScores scores{spec_->kv_heads, keys_, weights_of(layer)};
        how_.method->select(scores, seed, chosen_of(layer));
        if (how_.told) how_.told(layer, scores, chosen_of(layer));
    });
    if (how_.method->queries() > 0) {
        for (int i = 0; i < layers; ++i) stats.mass += mass_of(chosen_layers_ + i);
        stats.masses += layers;
    }
    chosen_layers_ = scored_;
}

double KeySelection::mass_of(int layer) const {
    const KeySelection& holds = before_ == nullptr ? *this : *before_;
    const int64_t tail_begin = how_.method->tail_begin(holds.keys_, keys_);
    const std::span<const float> weights = weights_of(layer);
    double held = 0.0;
    for (int head = 0; head < spec_->kv_heads; ++head) {
        const auto of_head = weights.subspan(static_cast<size_t>(head * keys_), static_cast<size_t>(keys_));
        for (const int32_t key : holds.chosen(layer)[static_cast<size_t>(head)])
            held += static_cast<double>(of_head[static_cast<size_t>(key)]);
        const auto tail = of_head.subspan(static_cast<size_t>(tail_begin));
        held += std::accumulate(tail.begin(), tail.end(), 0.0);
    }
    return held / (queries_[static_cast<size_t>(layer)] * spec_->kv_heads);
}

}  // namespace rondo
