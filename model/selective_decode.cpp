#include "model/selective_decode.hpp"

#include <algorithm>
#include <cassert>

namespace rondo {

SelectiveDecode::Options SelectiveDecode::options_of(const DecodeAttention& settings) {
    Options options;
    options.method = make_decode_selection(settings);
    if (settings.method == DecodeAttention::Method::progressive) {
        options.observe_every = std::max(1, settings.reselect_every / settings.observe);
        options.lag_steps = settings.lag_steps;
    }
    return options;
}

int64_t SelectiveDecode::prompt_rows(const DecodeAttention& settings) {
    const Options options = options_of(settings);
    if (options.method == nullptr || !options.method->triggers().after_prefill) return 1;
    return std::max(int64_t{options.method->queries()} * options.observe_every, int64_t{1});
}

Result<std::unique_ptr<SelectiveDecode>> SelectiveDecode::create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                                 const Options& options) {
    int queries = options.method->queries();
    if (options.measure) queries = std::max(queries, 1);
    // While a choice is under way its queries must stay in the ring though steps go on.
    const int64_t rows = int64_t{queries} * options.observe_every + options.lag_steps + 1;
    RONDO_ASSIGN(QueryRing ring, QueryRing::create(spec, pool, device, rows, queries));
    return std::unique_ptr<SelectiveDecode>(new SelectiveDecode(spec, pool, device, options, std::move(ring)));
}

void SelectiveDecode::reset() {
    front_.clear();
    back_.clear();
    serving_ = choosing_ = false;
    steps_ = 0;
    masses_.clear();
    stats_.keys_chosen = stats_.blocks_held = 0;
}

void SelectiveDecode::after_prefill(const SequenceKv& kv) {
    reset();
    const SelectionTriggers triggers = options_.method->triggers();
    if (triggers.after_prefill || triggers.first == 0) begin(kv);
}

void SelectiveDecode::begin(const SequenceKv& kv) {
    if (!options_.method->wanted(kv.tokens())) return;
    choosing_ = true;
    due_ = steps_ + options_.lag_steps;
    back_.begin({options_.method.get(), options_.observe_every, options_.seed}, kv.tokens(),
                serving_ ? &front_ : nullptr);
    ++stats_.selections;
}

void SelectiveDecode::give_up() {
    choosing_ = false;
    back_.clear();
    ++stats_.given_up;
}

void SelectiveDecode::before_step(SequenceKv& kv) {
    if (due()) {
        assert(back_.complete());
        choosing_ = false;
        std::swap(front_, back_);
        back_.clear();
        serving_ = true;
        stats_.keys_chosen = front_.kv().keys_chosen();
        stats_.blocks_held = front_.kv().blocks_held();
    }
    if (serving_) slide(kv);
}

/// Where all keys begin to be attended to, for the step that comes; what lies before is given up where that is meant.
void SelectiveDecode::slide(SequenceKv& kv) {
    tail_begin_ = options_.method->tail_begin(front_.keys_seen(), kv.tokens() + 1);
    if (options_.method->evicts() && options_.give_up_blocks) kv.release_before(tail_begin_);
}

void SelectiveDecode::after_step(const SequenceKv& kv) {
    count_step(kv.tokens());
    ++steps_;
    const SelectionTriggers triggers = options_.method->triggers();
    const bool again =
        triggers.every > 0 && steps_ >= triggers.first && (steps_ - triggers.first) % triggers.every == 0;
    if (again && !(triggers.once && serving_)) begin(kv);
}

void SelectiveDecode::count_step(int64_t keys) {
    const int64_t lists = int64_t{spec_.layers} * spec_.kv_heads;
    stats_.causal += lists * keys;
    stats_.attended += serving_ ? stats_.keys_chosen + lists * (keys - tail_begin_) : lists * keys;
}

Status SelectiveDecode::advance(const SequenceKv& kv, int layers) {
    RONDO_TRY(on_device(kv, layers));
    RONDO_TRY(device_.wait(StreamId::compute));
    on_host([this](int64_t tasks, const std::function<void(int64_t)>& task) { device_.run_tasks(tasks, task); });
    return Status::ok();
}

Status SelectiveDecode::work_now(const SequenceKv& kv) {
    if (!choosing_ || back_.complete()) return Status::ok();
    Status done;
    if (due()) {
        while (done && !back_.complete()) done = advance(kv, layers_to_score());
    } else {
        const int steps_left = due_ - steps_;
        done = advance(kv, (layers_to_score() + steps_left - 1) / steps_left);
    }
    if (done || done.error().code != ErrorCode::out_of_memory) return done;
    give_up();
    return Status::ok();
}

SelectedKeys SelectiveDecode::keys(int layer) const {
    return serving_ ? front_.kv().keys(layer, tail_begin_) : SelectedKeys{};
}

Status SelectiveDecode::measure_step(const SequenceKv& kv) {
    if (!options_.measure) return Status::ok();
    const size_t first = masses_.size();
    masses_.resize(first + static_cast<size_t>(spec_.layers * spec_.heads), 1.0);
    if (!serving_) return Status::ok();
    RONDO_TRY(ring_.locate(kv));
    const auto newest = static_cast<int32_t>(kv.tokens() - 1);
    for (int layer = 0; layer < spec_.layers; ++layer) {
        RONDO_ASSIGN(const ScoreArgs args, ring_.score_args(layer, kv.tokens(), {&newest, 1}));
        RONDO_TRY(device_.ops().score_rows(args, [&](int head, const Tensor& row) {
            const std::span<const float> weights(row.row<const float>(0), static_cast<size_t>(row.columns));
            double held = 0.0;
            for (const int32_t key : chosen(layer)[static_cast<size_t>(head / (spec_.heads / spec_.kv_heads))])
                held += static_cast<double>(weights[static_cast<size_t>(key)]);
            for (const float weight : weights.subspan(static_cast<size_t>(tail_begin_)))
                held += static_cast<double>(weight);
            masses_[first + static_cast<size_t>(layer * spec_.heads + head)] = held;
        }));
    }
    return Status::ok();
}

}  // namespace rondo
