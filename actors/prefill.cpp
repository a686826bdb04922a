#include "actors/prefill.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "actors/when_answered.hpp"

namespace rondo {

Prefill::Prefill(caf::actor_config& config, device_runner_actor prompts, device_runner_actor home, cache_actor cache,
                 const Options& options)
    : prefill_actor::base(config), options_(options), cache_(std::move(cache)) {
    const bool same = prompts == home;
    lanes_.push_back({std::move(prompts), {}, {}, {}, {}, {}, 0.0});
    if (!same) lanes_.push_back({std::move(home), {}, {}, {}, {}, {}, 0.0});
}

Prefill::behavior_type Prefill::make_behavior() {
    return {
        [this](prefill_atom, const TurnPtr& turn) {
            auto promise = make_response_promise<StageReply>();
            const size_t lane = choose_lane(*turn);
            lanes_[lane].order.add(turn->id, turn->priority, turn->missing());
            lanes_[lane].jobs[turn->id] = {turn, promise, false, false, 0, 0.0};
            pump(lane);
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            for (size_t lane = 0; lane < lanes_.size(); ++lane) withdraw(lane, id);
        },
        [this](watch_atom, uint64_t lane, uint64_t piece) {
            const Watch::Found found = lanes_.at(lane).watch.look(piece);
            if (found == Watch::Found::work) look_later(lane);
            if (found == Watch::Found::late) quit(to_caf(late_device()));
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Prefill::on_exit() {
    for (Lane& lane : lanes_) lane.jobs.clear();
    cache_ = nullptr;
}

/// Where it would be done sooner by what was measured; a long prompt does not go where answers are made.
size_t Prefill::choose_lane(const Turn& turn) const {
    if (lanes_.size() == 1 || turn.missing() > options_.at_home_tokens) return 0;
    const auto seconds = [&](const Lane& lane) {
        const auto tokens = static_cast<double>(lane.order.tokens() + turn.missing());
        return lane.tokens_per_second > 0.0 ? tokens / lane.tokens_per_second : tokens * 1e-6;
    };
    return seconds(lanes_[1]) < seconds(lanes_[0]) ? 1 : 0;
}

/// Of chunks that have begun the most urgent, the first of equals, unless a prompt that has not is more urgent. One
/// that is not wanted any more is given up first: it holds a place.
std::optional<TurnId> Prefill::choose(const Lane& lane) const {
    const std::optional<TurnId> next = lane.order.next();
    if (lane.open.empty()) return next;
    const auto urgency = [&](TurnId id) {
        const Job& job = lane.jobs.at(id);
        return job.withdrawn ? std::numeric_limits<int>::max() : job.turn->priority;
    };
    const TurnId begun = *std::ranges::max_element(lane.open, {}, urgency);
    const bool passes = next && lane.open.size() < options_.open_max && urgency(*next) > urgency(begun);
    return passes ? next : begun;
}

void Prefill::pump(size_t index) {
    Lane& lane = lanes_[index];
    if (lane.busy) return;
    const std::optional<TurnId> next = choose(lane);
    if (!next) return;
    auto chunk = std::make_shared<Chunk>();
    const Job& job = lane.jobs.at(*next);
    chunk->turn = job.turn;
    chunk->budget_seconds = options_.chunk_seconds;
    chunk->drop = job.withdrawn;
    send(index, chunk);
}

void Prefill::send(size_t index, const ChunkPtr& chunk) {
    Lane& lane = lanes_[index];
    lane.busy = chunk->turn->id;
    const int64_t before = chunk->turn->missing();
    if (lane.watch.begin()) look_later(index);
    request(lane.runner, caf::infinite, chunk_atom::value, chunk)
        .then([=, this](const ChunkPtr& done) { answered(index, done, before - done->turn->missing()); },
              // Nobody knows what the device has written: every prompt on it fails with this stage.
              [this](const caf::error& error) { quit(error); });
}

void Prefill::look_later(size_t index) {
    delayed_send(this, options_.timeout, watch_atom::value, uint64_t{index}, lanes_[index].watch.piece());
}

void Prefill::answered(size_t index, const ChunkPtr& chunk, int64_t computed) {
    Lane& lane = lanes_[index];
    const TurnId id = chunk->turn->id;
    lane.busy.reset();
    lane.watch.end();
    Job& job = lane.jobs.at(id);
    job.chunk_tokens += computed;
    job.chunk_seconds += chunk->seconds;
    const auto place = std::ranges::find(lane.open, id);
    if (chunk->open && place == lane.open.end()) lane.open.push_back(id);
    if (!chunk->open) {
        if (place != lane.open.end()) lane.open.erase(place);
        if (job.chunk_tokens > 0) {
            lane.order.computed(id, job.chunk_tokens);
            const double rate = static_cast<double>(job.chunk_tokens) / std::max(job.chunk_seconds, 1e-9);
            lane.tokens_per_second = lane.tokens_per_second == 0.0 ? rate : (lane.tokens_per_second + rate) / 2;
        }
        job.chunk_tokens = 0;
        job.chunk_seconds = 0.0;
    }
    if (!chunk->status) {
        finish(lane, id, StageReply::Outcome::refused, chunk->status.error());
    } else if (chunk->done) {
        share(index, id);
    } else if (job.withdrawn && !chunk->open) {
        finish(lane, id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    }
    pump(index);
}

/// Others with the same beginning need not wait for the answer's end.
void Prefill::share(size_t index, TurnId id) {
    Lane& lane = lanes_[index];
    lane.order.remove(id);
    lane.jobs.at(id).complete = true;
    const auto finished = [=, this] { finish(lanes_[index], id, StageReply::Outcome::done); };
    when_answered(
        request(cache_, options_.timeout, share_atom::value, lane.jobs.at(id).turn), [=](bool) { finished(); },
        [=](const caf::error&) { finished(); });
}

void Prefill::finish(Lane& lane, TurnId id, StageReply::Outcome outcome, Error error) {
    auto job = std::move(lane.jobs.extract(id).mapped());
    lane.order.remove(id);
    if (outcome == StageReply::Outcome::done && job.turn->last.over) outcome = StageReply::Outcome::over;
    job.promise.deliver(StageReply{outcome, std::move(job.turn), std::move(error)});
}

void Prefill::withdraw(size_t index, TurnId id) {
    Lane& lane = lanes_[index];
    const auto job = lane.jobs.find(id);
    if (job == lane.jobs.end()) return;
    if (job->second.complete) return;
    job->second.withdrawn = true;
    const bool in_work = lane.busy == id || std::ranges::count(lane.open, id) > 0;
    if (!in_work) finish(lane, id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    pump(index);
}

}  // namespace rondo
