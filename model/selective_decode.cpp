#include "model/selective_decode.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>

#include "config/mix_bits.hpp"

namespace rondo {

namespace {

class Stopwatch {
public:
    explicit Stopwatch(double& seconds) : seconds_(seconds) {}
    ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

private:
    double& seconds_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

uint64_t mixed(uint64_t seed, uint64_t value) {
    return mix_bits(seed + mix_step * (value + 1));
}

Status grow(Device& device, Buffer& buffer, size_t bytes) {
    if (buffer.bytes() >= bytes) return Status::ok();
    RONDO_ASSIGN(buffer, device.allocate(bytes + bytes / 2));
    return Status::ok();
}

}  // namespace

SelectiveDecode::SelectiveDecode(const ModelSpec& spec, KvPool& pool, Device& device, Options options)
    : spec_(spec),
      pool_(pool),
      device_(device),
      options_(std::move(options)),
      front_{SelectedKv(pool, device), {}, 0},
      back_{SelectedKv(pool, device), {}, 0} {
    const auto lists = static_cast<size_t>(spec.layers * spec.kv_heads);
    front_.chosen.resize(lists);
    back_.chosen.resize(lists);
    kept_from_.assign(static_cast<size_t>(spec.layers), 0);
}

SelectiveDecode::Options SelectiveDecode::options_of(const DecodeAttention& settings) {
    Options options;
    options.method = make_decode_selection(settings);
    if (settings.method == DecodeAttention::Method::progressive) {
        options.observe_every = std::max(1, settings.reselect_every / settings.observe);
        options.lag_steps = settings.lag_steps;
    }
    return options;
}

Result<std::unique_ptr<SelectiveDecode>> SelectiveDecode::create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                                 Options options) {
    std::unique_ptr<SelectiveDecode> made(new SelectiveDecode(spec, pool, device, std::move(options)));
    int queries = made->options_.method->queries();
    if (made->options_.measure) queries = std::max(queries, 1);
    const int64_t row = int64_t{spec.heads} * spec.head_dim;
    // While a selection is under way its queries must stay in the ring though steps go on.
    made->ring_rows_ = int64_t{queries} * made->options_.observe_every + made->options_.lag_steps + 1;
    if (queries == 0) made->ring_rows_ = 0;
    const auto ring_bytes = static_cast<size_t>(spec.layers * made->ring_rows_ * row) * sizeof(float);
    if (queries > 0) {
        RONDO_ASSIGN(made->ring_, device.allocate(ring_bytes));
        RONDO_ASSIGN(made->queries_, device.allocate(static_cast<size_t>(queries * row) * sizeof(float)));
    }
    return made;
}

void SelectiveDecode::reset() {
    front_.kv.clear();
    back_.kv.clear();
    serving_ = choosing_ = false;
    steps_ = 0;
    masses_.clear();
    stats_.keys_chosen = stats_.keys_all = stats_.blocks_held = 0;
}

Status SelectiveDecode::keep_queries(int layer, const Tensor& q, int64_t keys) {
    if (ring_rows_ == 0) return Status::ok();
    const int64_t kept = std::min(q.rows, ring_rows_);
    int64_t& from = kept_from_[static_cast<size_t>(layer)];
    if (kept < q.rows || keys - q.rows < from) from = keys - kept;
    const size_t bytes = static_cast<size_t>(q.columns) * sizeof(float);
    for (int64_t i = q.rows - kept; i < q.rows; ++i) {
        const int64_t key = keys - q.rows + i;
        float* const to = ring_.as<float>() + (layer * ring_rows_ + key % ring_rows_) * q.columns;
        RONDO_TRY(device_.copy(to, q.row<float>(i), bytes, StreamId::compute));
    }
    return Status::ok();
}

Status SelectiveDecode::after_prefill(SequenceKv& kv) {
    reset();
    const SelectionTriggers triggers = options_.method->triggers();
    if (!triggers.after_prefill && triggers.first > 0) return Status::ok();
    return begin(kv);
}

Status SelectiveDecode::before_step(SequenceKv& kv) {
    if (choosing_ && steps_ >= due_) return finish(kv);
    return Status::ok();
}

Status SelectiveDecode::after_step(SequenceKv& kv) {
    if (options_.measure) RONDO_TRY(measure_step(kv));
    ++steps_;
    const SelectionTriggers triggers = options_.method->triggers();
    if (triggers.every > 0 && steps_ >= triggers.first && (steps_ - triggers.first) % triggers.every == 0) {
        if (choosing_) RONDO_TRY(finish(kv));
        RONDO_TRY(begin(kv));
    }
    if (!choosing_) return Status::ok();
    const int steps_left = std::max(due_ - steps_, 1);
    return advance(kv, (layers_left() + steps_left - 1) / steps_left);
}

Status SelectiveDecode::begin(SequenceKv& kv) {
    if (!options_.method->wanted(kv.tokens())) return Status::ok();
    choosing_ = true;
    next_layer_ = 0;
    due_ = steps_ + options_.lag_steps;
    back_.kv.clear();
    back_.keys = kv.tokens();
    RONDO_TRY(send_tables(kv));
    ++stats_.selections;
    return options_.lag_steps == 0 ? finish(kv) : Status::ok();
}

std::span<std::vector<int32_t>> SelectiveDecode::chosen_of(Selection& selection, int layer) const {
    return std::span(selection.chosen)
        .subspan(static_cast<size_t>(layer * spec_.kv_heads), static_cast<size_t>(spec_.kv_heads));
}

Status SelectiveDecode::send_tables(const SequenceKv& kv) {
    const auto begins = kv.block_begin();
    std::vector<int32_t>& table = tables_.host();
    table.assign({static_cast<int32_t>(begins.size()) - 1});
    table.insert(table.end(), begins.begin(), begins.end());
    for (const LayerGroup group : {LayerGroup::lower, LayerGroup::upper}) {
        const auto blocks = kv.blocks(group);
        table.insert(table.end(), blocks.begin(), blocks.end());
    }
    return tables_.send(device_);
}

Result<ScoreArgs> SelectiveDecode::score_args(const SequenceKv& kv, int layer, int64_t keys,
                                              std::span<const int32_t> query_keys) {
    const int64_t columns = int64_t{spec_.heads} * spec_.head_dim;
    std::vector<int32_t>& rows = ring_rows_of_.host();
    rows.clear();
    for (const int32_t key : query_keys) rows.push_back(static_cast<int32_t>(layer * ring_rows_ + key % ring_rows_));
    row_keys_.host().assign(query_keys.begin(), query_keys.end());
    RONDO_TRY(ring_rows_of_.send(device_));
    RONDO_TRY(row_keys_.send(device_));
    ScoreArgs args;
    args.q = Tensor::of(queries_.data(), DType::f32, std::ssize(query_keys), columns);
    const Tensor ring = Tensor::of(ring_.data(), DType::f32, spec_.layers * ring_rows_, columns);
    RONDO_TRY(device_.ops().take_rows(args.q, ring, ring_rows_of_.data()));
    args.heads = spec_.heads;
    args.kv = pool_.layer(layer);
    const auto blocks = static_cast<int64_t>(tables_.host()[0]);
    const bool behind_lower =
        pool_.shape().group_of(layer) == LayerGroup::upper && !kv.blocks(LayerGroup::lower).empty();
    args.sequence.sequences = 1;
    args.sequence.block_count = tables_.data();
    args.sequence.block_begin = tables_.data() + 1;
    args.sequence.blocks = tables_.data() + 1 + blocks + 1 + (behind_lower ? blocks : 0);
    args.sequence.blocks_stride = blocks + 1;
    args.row_keys = row_keys_.data();
    args.keys = keys;
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.head_dim)));
    return args;
}

/// A layer's scores, at their place among those that are looked at together.
Status SelectiveDecode::score(const SequenceKv& kv, int layer, int place) {
    const int queries = options_.method->queries();
    if (queries == 0) return Status::ok();
    query_keys_.clear();
    for (int i = queries - 1; i >= 0; --i) {
        const int64_t key = back_.keys - 1 - int64_t{i} * options_.observe_every;
        if (key >= kept_from_[static_cast<size_t>(layer)]) query_keys_.push_back(static_cast<int32_t>(key));
    }
    RONDO_ASSIGN(const ScoreArgs args, score_args(kv, layer, back_.keys, query_keys_));
    const int64_t floats = spec_.kv_heads * back_.keys;
    float* const to = scores_.as<float>() + place * floats;
    stats_.keys_scored += floats;
    return device_.ops().score_keys(Tensor::of(to, DType::f32, spec_.kv_heads, back_.keys), args);
}

Status SelectiveDecode::measure_step(const SequenceKv& kv) {
    const size_t first = masses_.size();
    masses_.resize(first + static_cast<size_t>(spec_.layers * spec_.heads), 1.0);
    if (!serving_) return Status::ok();
    RONDO_TRY(send_tables(kv));
    const auto newest = static_cast<int32_t>(kv.tokens() - 1);
    for (int layer = 0; layer < spec_.layers; ++layer) {
        RONDO_ASSIGN(const ScoreArgs args, score_args(kv, layer, kv.tokens(), {&newest, 1}));
        RONDO_TRY(device_.ops().score_rows(args, [&](int head, std::span<const float> weights) {
            double held = 0.0;
            for (const int32_t key : chosen(layer)[static_cast<size_t>(head / (spec_.heads / spec_.kv_heads))])
                held += static_cast<double>(weights[static_cast<size_t>(key)]);
            for (const float weight : weights.subspan(static_cast<size_t>(front_.keys)))
                held += static_cast<double>(weight);
            masses_[first + static_cast<size_t>(layer * spec_.heads + head)] = held;
        }));
    }
    return Status::ok();
}

Status SelectiveDecode::advance(const SequenceKv& kv, int layers) {
    layers = std::min(layers, layers_left());
    if (layers <= 0) return Status::ok();
    const int64_t floats = spec_.kv_heads * back_.keys;
    std::span<const float> weights;
    {
        const Stopwatch watch(stats_.score_seconds);
        RONDO_TRY(grow(device_, scores_, static_cast<size_t>(layers * floats) * sizeof(float)));
        for (int i = 0; i < layers; ++i) RONDO_TRY(score(kv, next_layer_ + i, i));
        weights = {scores_.as<float>(), static_cast<size_t>(layers * floats)};
        if (device_.space().kind != DeviceKind::cpu) {
            host_scores_.resize(weights.size());
            RONDO_TRY(device_.copy(host_scores_.data(), scores_.data(), weights.size_bytes(), StreamId::compute));
            RONDO_TRY(device_.wait(StreamId::compute));
            weights = host_scores_;
        }
    }
    {
        const Stopwatch watch(stats_.select_seconds);
        const bool scored = options_.method->queries() > 0;
        device_.run_tasks(layers, [&](int64_t i) {
            const auto layer = next_layer_ + static_cast<int>(i);
            const size_t first = static_cast<size_t>(i * floats);
            const KeyScores scores{spec_.kv_heads, back_.keys,
                                   scored ? weights.subspan(first, static_cast<size_t>(floats)) : weights.first(0)};
            const uint64_t seed =
                mixed(mixed(options_.seed, static_cast<uint64_t>(back_.keys)), static_cast<uint64_t>(layer));
            options_.method->select(scores, seed, chosen_of(back_, layer));
        });
    }
    const Stopwatch watch(stats_.gather_seconds);
    for (int i = 0; i < layers; ++i, ++next_layer_) {
        const auto chosen = chosen_of(back_, next_layer_);
        // Without room for copies a view does as well, if more slowly; keys that are to be given up must be copied.
        if (next_layer_ == 0)
            place_ = options_.method->evicts() || back_.kv.has_room(chosen) ? SelectedKv::Place::copied
                                                                            : SelectedKv::Place::where_they_lie;
        RONDO_TRY(back_.kv.set_layer(next_layer_, kv, chosen, place_));
    }
    return Status::ok();
}

Status SelectiveDecode::finish(SequenceKv& kv) {
    RONDO_TRY(advance(kv, layers_left()));
    choosing_ = false;
    std::swap(front_, back_);
    back_.kv.clear();
    serving_ = true;
    stats_.keys_chosen = front_.kv.keys_chosen();
    stats_.keys_all = front_.keys * spec_.layers * spec_.kv_heads;
    stats_.blocks_held = front_.kv.blocks_held();
    if (options_.method->evicts() && options_.give_up_blocks) kv.release_before(front_.keys);
    return Status::ok();
}

SelectedKeys SelectiveDecode::keys(int layer) const {
    return serving_ ? front_.kv.keys(layer, front_.keys) : SelectedKeys{};
}

std::span<const std::vector<int32_t>> SelectiveDecode::chosen(int layer) const {
    return std::span(front_.chosen)
        .subspan(static_cast<size_t>(layer * spec_.kv_heads), static_cast<size_t>(spec_.kv_heads));
}

}  // namespace rondo
