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
      lanes_({runners.size(), options.for_prompts, options.beside_decode_tokens_max, options.open_max}) {
    for (const device_runner_actor& runner : runners) runners_.push_back({runner, {}});
}

Prefill::behavior_type Prefill::make_behavior() {
    return {
        [this](prefill_atom, const TurnPtr& turn) {
            auto promise = make_response_promise<StageReply>();
            take(turn, promise);
            return promise;
        },
        [this](arrived_atom, TurnId id) {
            if (!jobs_.contains(id)) return;
            look_at_arrival(id);
            pump_all();
        },
        [this](give_up_atom, TurnId id) {
            if (jobs_.contains(id)) watch_arrival(id);
            pump_all();
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
    arrivals_ = {};
    runners_.clear();
    cache_ = nullptr;
    options_.load->prompt_tokens = 0;
}

void Prefill::take(const TurnPtr& turn, const caf::typed_response_promise<StageReply>& promise) {
    const TurnId id = turn->id;
    jobs_[id] = {turn, promise};
    const size_t lane = lanes_.add(id, turn->priority, turn->missing());
    if (turn->arrival) {
        arrivals_.add(id, turn->arrival, now(), turn->ahead.count() > 0);
        const auto self = caf::actor_cast<prefill_actor>(this);
        turn->arrival->tell([self, id] { caf::anon_send(self, arrived_atom::value, id); });
        look_at_arrival(id);
        watch_arrival(id);
    }
    pump(lane);
}

void Prefill::look_at_arrival(TurnId id) {
    using Next = PromptArrivals::Next;
    const PromptArrivals::Look look = arrivals_.look(id, now());
    switch (look.next) {
        case Next::nothing:
            return;
        case Next::goes_on:
            return lanes_.wait(id, false);
        case Next::waits:
            return lanes_.wait(id, true);
        case Next::drops_chunk:
            static_cast<void>(lanes_.drop_chunk(id));
            return;
        case Next::begins_anew:
            return begin_anew(id);
        case Next::ends_waiting:
            break;
    }
    lanes_.grow(id, look.failed_tokens);
    stop_waiting(id);
    lanes_.wait(id, false);
}

void Prefill::stop_waiting(TurnId id) {
    arrivals_.remove(id, now());
    jobs_.at(id).turn->stop_waiting();
}

/// As long as something is on its way: whether it still comes.
void Prefill::watch_arrival(TurnId id) {
    const PromptArrivals::Patience patience = arrivals_.patience(id, now());
    if (patience.is_over) look_at_arrival(id);
    if (patience.again_in_s == 0.0 || !jobs_.contains(id)) return;
    delayed_send(prefill_actor(this), timespan_of(patience.again_in_s), give_up_atom::value, id);
}

/// What the disk has not brought it may yet write to the turn's blocks: the turn is let in again, with others. No piece
/// of it is open.
void Prefill::begin_anew(TurnId id) {
    Turn& turn = *jobs_.at(id).turn;
    static_cast<void>(lanes_.withdraw(id));
    ++turn.preemptions;
    turn.waited_in_vain = true;
    turn.arrival->give_up(Arrival::Why::hangs);
    stop_waiting(id);
    if (turn.kv.tokens() == 0) turn.kv = SequenceKv(*turn.runtime->pool);
    finish(id, StageReply::Outcome::preempted);
}

void Prefill::pump_all() {
    for (size_t lane = 0; lane < lanes_.lanes(); ++lane) pump(lane);
}

void Prefill::tell_load() {
    int64_t tokens = 0;
    for (size_t lane = 0; lane < lanes_.lanes(); ++lane) tokens += lanes_.tokens(lane);
    options_.load->prompt_tokens = tokens;
    const double waited = arrivals_.waited_seconds();
    options_.load->waited_seconds.fetch_add(waited - std::exchange(waited_told_, waited));
}

void Prefill::pump(size_t lane) {
    tell_load();
    const std::optional<PromptLanes::Piece> next = lanes_.begin(lane);
    if (!next) return;
    auto chunk = std::make_shared<Chunk>();
    chunk->turn = jobs_.at(next->id).turn;
    if (const std::optional<int> layers = arrivals_.begin_piece(next->id)) chunk->layers_max = *layers;
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
    const bool ahead = chunk->turn->ahead.count() > 0;
    arrivals_.end_piece(id, {chunk->layer, chunk->open, chunk->drop, ahead});
    if (!ahead && chunk->turn->arrival) chunk->turn->arrival->computed_ahead();
    const PromptLanes::After after =
        lanes_.end(lane, {computed, chunk->seconds, chunk->open, chunk->done, !chunk->status});
    if (!chunk->status) {
        finish(id, StageReply::Outcome::refused, chunk->status.error());
    } else if (chunk->done) {
        share(id);
    } else if (after == PromptLanes::After::leaves) {
        finish(id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    } else {
        look_at_arrival(id);
    }
    pump(lane);
}

/// Others with the same beginning need not wait for the answer's end.
void Prefill::share(TurnId id) {
    stop_waiting(id);
    const auto finished = [=, this] { finish(id, StageReply::Outcome::done); };
    when_answered(
        request(cache_, options_.timeout, share_atom::value, jobs_.at(id).turn), [=](bool) { finished(); },
        [=, this](const caf::error& error) {
            // It may still read the turn's keys, to which the answer's would be added meanwhile.
            if (error == caf::sec::request_timeout) return quit(error);
            finished();
        });
}

void Prefill::finish(TurnId id, StageReply::Outcome outcome, Error error) {
    stop_waiting(id);
    Job job = std::move(jobs_.extract(id).mapped());
    if (outcome == StageReply::Outcome::done && job.turn->last.over) outcome = StageReply::Outcome::over;
    job.promise.deliver(StageReply{outcome, std::move(job.turn), std::move(error)});
}

void Prefill::withdraw(TurnId id) {
    if (lanes_.withdraw(id) == PromptLanes::After::leaves)
        finish(id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    pump_all();
}

}  // namespace rondo
