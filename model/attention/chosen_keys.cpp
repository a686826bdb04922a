#include "model/attention/chosen_keys.hpp"

#include <cassert>

namespace rondo {

ChosenKeys::ChosenKeys(const ModelSpec& spec, KvPool& pool, Device& device, const Options& options, QueryRing ring)
    : spec_(spec),
      pool_(pool),
      device_(device),
      options_(options),
      triggers_(options.method->triggers()),
      ring_(std::move(ring)),
      copies_(pool, device) {}

void ChosenKeys::reset() {
    stop_choosing();
    lists_.reset();
    copies_.clear();
    serving_ = false;
    steps_ = 0;
    not_before_ = 0;
    stats_.keys_chosen = stats_.blocks_held = 0;
}

void ChosenKeys::after_prefill(Device& device, const SequenceKv& kv) {
    reset();
    if (triggers_.after_prefill || (triggers_.every > 0 && triggers_.first == 0)) begin(device, kv);
}

void ChosenKeys::begin(Device& device, const SequenceKv& kv) {
    if (!options_.method->wanted(kv.tokens())) return;
    choosing_ = true;
    due_ = steps_ + options_.lag_steps;
    choice_tokens_ = kv.tokens();
    choice_ = spare_ ? std::move(spare_) : std::make_unique<Choice>(spec_, pool_, device_);
    choice_->begin({options_.method, options_.observe_every, options_.seed, ++number_, lists_}, device, kv, ring_);
    ++stats_.selections;
}

/// Should somebody else have the choice, it is not known any more when it comes back.
void ChosenKeys::stop_choosing() {
    choosing_ = false;
    if (choice_) recycle(std::move(choice_));
}

void ChosenKeys::recycle(std::unique_ptr<Choice> choice) {
    choice->clear();
    if (triggers_.every > 0 && !(triggers_.once && serving_)) spare_ = std::move(choice);
}

void ChosenKeys::give_up() {
    constexpr int patience = 16;  // steps: each try scores keys, and has others make room
    stop_choosing();
    not_before_ = steps_ + patience;
    ++stats_.given_up;
}

std::unique_ptr<Choice> ChosenKeys::take_begun() {
    return choice_ && !choice_->complete() ? std::move(choice_) : nullptr;
}

void ChosenKeys::hand_back(std::unique_ptr<Choice> choice) {
    if (!choosing_ || choice->number() != number_) return drop(std::move(choice));
    choice->count_into(stats_);
    choice_ = std::move(choice);
    if (!choice_->complete()) give_up();
}

void ChosenKeys::drop(std::unique_ptr<Choice> choice) {
    choice->count_into(stats_);
    if (choice->number() == number_) choosing_ = false;
    recycle(std::move(choice));
}

void ChosenKeys::before_step(SequenceKv& kv) {
    forget_from(kv.tokens());
    if (due()) {
        assert(choice_ && choice_->complete());
        serve(*choice_);
        stop_choosing();
    }
    if (serving_) slide(kv);
}

/// Of keys that have been cut off no choice serves.
void ChosenKeys::forget_from(int64_t tokens) {
    if (choosing_ && choice_tokens_ > tokens) stop_choosing();
    if (!serving_ || lists_->tokens <= tokens) return;
    serving_ = false;
    lists_.reset();
    copies_.clear();
}

void ChosenKeys::serve(Choice& choice) {
    choice.swap_result(lists_, copies_);
    serving_ = true;
    stats_.keys_chosen = copies_.keys_chosen();
    stats_.blocks_held = copies_.blocks_held();
}

/// Where all keys begin to be attended to, for the step that comes; what lies before is given up where that is meant.
void ChosenKeys::slide(SequenceKv& kv) {
    for (const LayerGroup group : layer_groups)
        tail_begin_[group] = options_.method->tail_begin(lists_->keys[group], kv.tokens(group) + 1);
    if (options_.method->evicts() && options_.give_up_blocks) kv.release_before(first_needed());
}

void ChosenKeys::after_step(const SequenceKv& kv) {
    count_step(kv);
    ++steps_;
    const bool again =
        triggers_.every > 0 && steps_ >= triggers_.first && (steps_ - triggers_.first) % triggers_.every == 0;
    if (again && !choosing_ && steps_ >= not_before_ && !(triggers_.once && serving_)) begin(device_, kv);
}

int64_t ChosenKeys::attended(const SequenceKv& kv) const {
    int64_t keys = serving_ ? stats_.keys_chosen : 0;
    for (const LayerGroup group : layer_groups) {
        const int64_t lists = int64_t{pool_.shape().layers_in(group)} * spec_.kv_heads;
        keys += lists * (kv.tokens(group) - (serving_ ? tail_begin_[group] : 0));
    }
    return keys;
}

void ChosenKeys::count_step(const SequenceKv& kv) {
    stats_.causal += int64_t{spec_.layers} * spec_.kv_heads * kv.tokens();
    stats_.attended += attended(kv);
}

Status ChosenKeys::advance(int layers) {
    const Status done = choice_->on_device(layers);
    if (done) {
        RONDO_ASSIGN(const Mark scored, device_.record(StreamId::compute));
        RONDO_TRY(device_.reach(scored));
        choice_->on_host(
            [this](int64_t tasks, const std::function<void(int64_t)>& task) { device_.run_tasks(tasks, task); });
    }
    choice_->count_into(stats_);
    return done;
}

Status ChosenKeys::work_now() {
    if (choice_ == nullptr || choice_->complete()) return Status::ok();
    Status done;
    if (due()) {
        while (done && !choice_->complete()) done = advance(choice_->layers_to_score());
    } else {
        const int times_left = due_ - steps_ + 1;  // after each step until then, and before the next
        done = advance((choice_->layers_to_score() + times_left - 1) / times_left);
    }
    if (done || done.error().code != ErrorCode::out_of_memory) return done;
    give_up();
    return Status::ok();
}

Result<AttendedKeys> ChosenKeys::keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) {
    static_cast<void>(step), static_cast<void>(kv);
    return serving_ ? copies_.keys(layer, tail_begin(layer)) : AttendedKeys{};
}

bool ChosenKeys::ranges_of_step(int layer, int kv_head, const SequenceKv& kv, const OnRange& on_range) const {
    if (!serving_) return false;
    for (const int32_t key : chosen(layer)[static_cast<size_t>(kv_head)]) on_range(key, key + 1);
    on_range(tail_begin(layer), kv.tokens(pool_.shape().group_of(layer)));
    return true;
}

}  // namespace rondo
