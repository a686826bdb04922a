#include "actors/prefill.hpp"

#include <optional>
#include <utility>

#include "actors/when_answered.hpp"

namespace rondo {

Prefill::Prefill(caf::actor_config& config, const std::vector<device_runner_actor>& runners, cache_actor cache,
                 const Options& options)
    : prefill_actor::base(config),
      options_(options),
      cache_(std::move(cache)),
      lanes_({runners.size(), options.for_prompts, options.at_home_tokens, options.open_max}) {
    for (const device_runner_actor& runner : runners) runners_.push_back({runner, {}});
}

Prefill::behavior_type Prefill::make_behavior() {
    return {
        [this](prefill_atom, const TurnPtr& turn) {
            auto promise = make_response_promise<StageReply>();
            jobs_[turn->id] = {turn, promise};
            pump(lanes_.add(turn->id, turn->priority, turn->missing()));
            return promise;
        },
        [this](withdraw_atom, TurnId id) { withdraw(id); },
        [this](watch_atom, uint64_t lane, uint64_t piece) {
            const Watch::Found found = runners_.at(lane).watch.look(piece);
            if (found == Watch::Found::work) look_later(lane);
            if (found == Watch::Found::late) quit(to_caf(late_device()));
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Prefill::on_exit() {
    jobs_.clear();
    runners_.clear();
    cache_ = nullptr;
}

void Prefill::pump(size_t lane) {
    const std::optional<PromptLanes::Piece> next = lanes_.begin(lane);
    if (!next) return;
    auto chunk = std::make_shared<Chunk>();
    chunk->turn = jobs_.at(next->id).turn;
    chunk->budget_seconds = options_.chunk_seconds;
    chunk->drop = next->drop;
    send(lane, chunk);
}

void Prefill::send(size_t lane, const ChunkPtr& chunk) {
    const int64_t before = chunk->turn->missing();
    if (runners_[lane].watch.begin()) look_later(lane);
    request(runners_[lane].actor, caf::infinite, chunk_atom::value, chunk)
        .then([=, this](const ChunkPtr& done) { answered(lane, done, before - done->turn->missing()); },
              // Nobody knows what the device has written: every prompt on it fails with this stage.
              [this](const caf::error& error) { quit(error); });
}

void Prefill::look_later(size_t lane) {
    delayed_send(this, options_.timeout, watch_atom::value, uint64_t{lane}, runners_[lane].watch.piece());
}

void Prefill::answered(size_t lane, const ChunkPtr& chunk, int64_t computed) {
    const TurnId id = chunk->turn->id;
    runners_[lane].watch.end();
    const PromptLanes::After after =
        lanes_.end(lane, {computed, chunk->seconds, chunk->open, chunk->done, !chunk->status});
    if (!chunk->status) {
        finish(id, StageReply::Outcome::refused, chunk->status.error());
    } else if (chunk->done) {
        share(id);
    } else if (after == PromptLanes::After::leaves) {
        finish(id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    }
    pump(lane);
}

/// Others with the same beginning need not wait for the answer's end.
void Prefill::share(TurnId id) {
    const auto finished = [=, this] { finish(id, StageReply::Outcome::done); };
    when_answered(
        request(cache_, options_.timeout, share_atom::value, jobs_.at(id).turn), [=](bool) { finished(); },
        [=](const caf::error&) { finished(); });
}

void Prefill::finish(TurnId id, StageReply::Outcome outcome, Error error) {
    Job job = std::move(jobs_.extract(id).mapped());
    if (outcome == StageReply::Outcome::done && job.turn->last.over) outcome = StageReply::Outcome::over;
    job.promise.deliver(StageReply{outcome, std::move(job.turn), std::move(error)});
}

void Prefill::withdraw(TurnId id) {
    if (lanes_.withdraw(id) == PromptLanes::After::leaves)
        finish(id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    for (size_t lane = 0; lane < lanes_.lanes(); ++lane) pump(lane);
}

}  // namespace rondo
