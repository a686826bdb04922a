#include "model/attention/selective_decode.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

#include "config/stopwatch.hpp"

namespace rondo {

SelectiveDecode::Options SelectiveDecode::options_of(const DecodeAttention& settings) {
    // As far back as queries are looked at, each turn keeps them: 21 MiB of a Qwen2-0.5B's.
    constexpr int looked_back_max = 256;
    Options options;
    options.method = make_decode_selection(settings);
    if (settings.method == DecodeAttention::Method::progressive)
        options.observe_every = std::max(1, std::min(settings.reselect_every, looked_back_max) / settings.observe);
    if (options.method != nullptr && options.method->triggers().go_on()) options.lag_steps = settings.lag_steps;
    if (settings.method == DecodeAttention::Method::quest) options.page_budget = settings.budget_tokens;
    return options;
}

int64_t SelectiveDecode::prompt_rows(const DecodeAttention& settings) {
    const Options options = options_of(settings);
    if (options.method == nullptr) return 1;
    const SelectionTriggers triggers = options.method->triggers();
    if (!triggers.after_prefill && triggers.every == 0) return 1;
    const int64_t looked_at = int64_t{options.method->queries()} * options.observe_every;
    return std::max(looked_at - (triggers.after_prefill ? 0 : triggers.first), int64_t{1});
}

Result<std::unique_ptr<SelectiveDecode>> SelectiveDecode::create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                                 const Options& options) {
    if (device.space().kind != DeviceKind::cpu)
        return make_error(ErrorCode::unsupported, "choosing keys on a GPU; CPUs do, and dense would be right here");
    for (const LayerGroup group : layer_groups) {
        constexpr size_t slots_max = std::numeric_limits<int32_t>::max();
        if (pool.shape().layers_in(group) == 0) continue;
        if (pool.blocks_total(group) > slots_max / kv_block_tokens / static_cast<size_t>(pool.atoms_each_block(group)))
            return make_error(ErrorCode::unsupported,
                              "choosing keys from so much KV: 2^31 keys by layer and head are "
                              "the most; a smaller device_kv_mib would be right");
    }
    if (options.measure && options.give_up_blocks && options.method && options.method->evicts())
        return make_error(ErrorCode::invalid_argument,
                          "measuring against keys that are given up; keeping their blocks "
                          "would be right");
    int queries = options.method ? options.method->queries() : 0;
    if (options.measure) queries = std::max(queries, 1);
    // While a choice is under way its queries must stay in the ring though steps go on.
    const int64_t rows = int64_t{queries} * options.observe_every + options.lag_steps + 1;
    RONDO_ASSIGN(QueryRing ring, QueryRing::create(spec, pool, device, rows, queries));
    std::unique_ptr<SelectiveDecode> made(new SelectiveDecode(spec, pool, device, options, std::move(ring)));
    if (options.method && options.method->accumulates()) {
        assert(options.method->triggers().once && options.lag_steps == 0);
        made->heavy_ = std::make_unique<HeavyKeys>(spec, pool, device);
    }
    if (options.method && options.method->shifts()) {
        assert(options.method->triggers().once && options.lag_steps == 0);
        RONDO_ASSIGN(made->shifted_, ShiftedKeys::create(spec, pool, device));
    }
    if (options.page_budget > 0) {
        RONDO_ASSIGN(made->pages_, PageSelection::create(spec, pool, device, options.page_budget));
    }
    return made;
}

void SelectiveDecode::reset() {
    front_.clear();
    back_.clear();
    if (shifted_) shifted_->clear();
    if (pages_) pages_->clear();
    serving_ = choosing_ = false;
    steps_ = 0;
    not_before_ = 0;
    masses_.clear();
    stats_.keys_chosen = stats_.blocks_held = 0;
}

void SelectiveDecode::after_prefill(const SequenceKv& kv) {
    reset();
    const SelectionTriggers triggers = this->triggers();
    if (triggers.after_prefill || (triggers.every > 0 && triggers.first == 0)) begin(kv);
}

void SelectiveDecode::begin(const SequenceKv& kv) {
    if (!options_.method->wanted(kv.tokens())) return;
    choosing_ = true;
    due_ = steps_ + options_.lag_steps;
    KeySelection::How how{options_.method.get(), options_.observe_every, options_.seed};
    if (heavy_) {
        how.told = [this](int layer, const KeyScores& scores, std::span<const std::vector<int32_t>> chosen) {
            heavy_->begin(layer, scores, chosen, options_.method->tail_begin(scores.keys, scores.keys));
        };
    }
    back_.begin(how, kv.tokens(), serving_ ? &front_ : nullptr);
    ++stats_.selections;
}

void SelectiveDecode::give_up() {
    constexpr int patience = 16;  // steps: each try scores keys, and has others make room
    choosing_ = false;
    not_before_ = steps_ + patience;
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
    if (options_.method->evicts() && options_.give_up_blocks)
        kv.release_before(heavy_ ? heavy_->first_needed() : tail_begin_);
}

void SelectiveDecode::after_step(const SequenceKv& kv) {
    count_step(kv.tokens());
    ++steps_;
    const SelectionTriggers triggers = this->triggers();
    const bool again =
        triggers.every > 0 && steps_ >= triggers.first && (steps_ - triggers.first) % triggers.every == 0;
    if (again && steps_ >= not_before_ && !(triggers.once && serving_)) begin(kv);
}

void SelectiveDecode::count_step(int64_t keys) {
    const int64_t lists = int64_t{spec_.layers} * spec_.kv_heads;
    stats_.causal += lists * keys;
    if (pages_) {
        stats_.attended += pages_->attended();
        stats_.selections += pages_->chose() ? 1 : 0;
        stats_.bounds_read += pages_->chose() ? pages_->bounds_bytes() : 0;
        return;
    }
    const int64_t attended = serving_ ? stats_.keys_chosen + lists * (keys - tail_begin_) : lists * keys;
    stats_.attended += attended;
    if (heavy_ && serving_) stats_.keys_scored += attended;
}

Status SelectiveDecode::advance(const SequenceKv& kv, int layers) {
    RONDO_TRY(on_device(kv, layers));
    RONDO_TRY(device_.drain(StreamId::compute));
    on_host([this](int64_t tasks, const std::function<void(int64_t)>& task) { device_.run_tasks(tasks, task); });
    return Status::ok();
}

Status SelectiveDecode::work_now(const SequenceKv& kv) {
    if (!choosing_ || back_.complete()) return Status::ok();
    Status done;
    if (due()) {
        while (done && !back_.complete()) done = advance(kv, layers_to_score());
    } else {
        const int times_left = due_ - steps_ + 1;  // after each step until then, and before the next
        done = advance(kv, (layers_to_score() + times_left - 1) / times_left);
    }
    if (done || done.error().code != ErrorCode::out_of_memory) return done;
    give_up();
    return Status::ok();
}

Result<SelectedKeys> SelectiveDecode::keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) {
    if (pages_) {
        const Stopwatch watch(stats_.score_seconds);
        return pages_->choose(layer, step, kv);
    }
    if (!serving_) return SelectedKeys{};
    if (heavy_) {
        const Stopwatch watch(stats_.gather_seconds);
        RONDO_TRY(heavy_->leave_window(layer, tail_begin_, kv, front_.kv()));
    }
    if (shifted_) {
        const Stopwatch watch(stats_.gather_seconds);
        const auto count = static_cast<int32_t>(front_.chosen(layer).front().size());
        RONDO_TRY(shifted_->move(layer, tail_begin_ - count, count, front_.kv()));
    }
    const SelectedKeys keys = front_.kv().keys(layer, tail_begin_);
    if (heavy_) {
        const Stopwatch watch(stats_.score_seconds);
        RONDO_TRY(heavy_->add(layer, step, keys, kv));
    }
    return keys;
}

/// Of one row's weights over all keys, what its step attended to.
double SelectiveDecode::mass_held(int layer, int kv_head, std::span<const float> weights, const SequenceKv& kv) const {
    const auto sum = [&](int64_t begin, int64_t end) {
        const auto some = weights.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
        return std::accumulate(some.begin(), some.end(), 0.0);
    };
    const auto head = static_cast<size_t>(kv_head);
    double held = 0.0;
    if (pages_) {
        const auto begins = kv.block_begin(pool_.shape().group_of(layer));
        for (const int32_t page : pages_->pages(layer)[head])
            held += sum(begins[static_cast<size_t>(page)], begins[static_cast<size_t>(page) + 1]);
        return pages_->pages(layer)[head].empty() ? 1.0 : held;
    }
    for (const int32_t key : chosen(layer)[head]) held += static_cast<double>(weights[static_cast<size_t>(key)]);
    return held + sum(tail_begin_, std::ssize(weights));
}

Status SelectiveDecode::measure_step(const SequenceKv& kv) {
    if (!options_.measure) return Status::ok();
    const size_t first = masses_.size();
    masses_.resize(first + static_cast<size_t>(spec_.layers * spec_.heads), 1.0);
    if (!serving_ && !pages_) return Status::ok();
    RONDO_TRY(ring_.locate(kv));
    const auto newest = static_cast<int32_t>(kv.tokens() - 1);
    for (int layer = 0; layer < spec_.layers; ++layer) {
        RONDO_ASSIGN(const ScoreArgs args, ring_.score_args(layer, kv.tokens(), {&newest, 1}));
        RONDO_TRY(device_.ops().score_rows(args, [&](int head, const Tensor& row) {
            const std::span<const float> weights(row.row<const float>(0), static_cast<size_t>(row.columns));
            masses_[first + static_cast<size_t>(layer * spec_.heads + head)] =
                mass_held(layer, head / (spec_.heads / spec_.kv_heads), weights, kv);
        }));
    }
    return Status::ok();
}

}  // namespace rondo
