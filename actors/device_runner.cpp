#include "actors/device_runner.hpp"

#include <algorithm>

namespace rondo {

DeviceRunner::behavior_type DeviceRunner::make_behavior() {
    return {
        [this](step_atom, const StepPtr& step) { return take(step); },
        [this](chunk_atom, const ChunkPtr& chunk) { return take(chunk); },
        [this](select_atom, const ChoiceJobPtr& job) { return take(job); },
        [this](done_atom, const StatusPtr& status) { complete(*status); },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void DeviceRunner::on_exit() {
    // First: what a kernel still writes to must not be others' yet.
    if (stepper_) static_cast<void>(stepper_->device().drain(StreamId::compute));
    waiting_.clear();
    current_.reset();
    *at_work_since_ns_ = 0;
    stepper_.reset();
    prompts_.reset();
    runtime_.reset();
}

template <class Work>
caf::typed_response_promise<std::shared_ptr<Work>> DeviceRunner::take(const std::shared_ptr<Work>& work) {
    auto promise = make_response_promise<std::shared_ptr<Work>>();
    waiting_.push_back(Asked<Work>{work, promise});
    issue_next();
    return promise;
}

void DeviceRunner::issue_next() {
    if (current_ || waiting_.empty()) return;
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    started_ = std::chrono::steady_clock::now();
    *at_work_since_ns_ = started_.time_since_epoch().count();
    Status issued = std::visit([this](auto& asked) { return issue(*asked.work); }, *current_);
    if (!issued) return refused(issued);
    // The device calls back on a thread of its own, or at once; either way the news is a message. That thread must not
    // be the last to hold this actor, and the device by it.
    issued = stepper_->device().notify(StreamId::compute,
                                       [self = caf::actor_cast<caf::weak_actor_ptr>(ctrl())](const Status& status) {
                                           if (const auto strong = self.lock())
                                               caf::anon_send(caf::actor_cast<device_runner_actor>(strong),
                                                              done_atom::value, std::make_shared<const Status>(status));
                                       });
    if (!issued) complete(issued);
}

/// What was enqueued before it failed must not write to blocks that others get. A device that fails fails everything:
/// the supervisor has to hear of it.
void DeviceRunner::refused(const Status& why) {
    const Status drained = stepper_->device().drain(StreamId::compute);
    if (!drained || why.error().code == ErrorCode::device) return complete(drained ? why : drained);
    answer(why);
}

void DeviceRunner::complete(const Status& status) {
    // A device that fails underway may have written anything; the supervisor starts all over.
    if (!status) return quit(to_caf(status.error()));
    answer(status);
}

/// A turn whose row is refused is taken out, and the others step without it.
Status DeviceRunner::issue(Step& step) {
    std::vector<Stepper::Row> rows;
    rows.reserve(step.turns.size());
    for (const TurnPtr& turn : step.turns)
        rows.push_back({&turn->kv, turn->ids.back(), turn->step_attention.get(), nullptr});
    Status done = stepper_->decode(rows);
    while (!done && stepper_->refused_row() && rows.size() > 1) {
        const auto row = static_cast<std::ptrdiff_t>(*stepper_->refused_row());
        step.refused.push_back({step.turns[*stepper_->refused_row()], done.error()});
        step.turns.erase(step.turns.begin() + row);
        rows.erase(rows.begin() + row);
        done = stepper_->decode(rows);
    }
    return done;
}

Status DeviceRunner::issue(Chunk& chunk) {
    Turn& turn = *chunk.turn;
    if (chunk.drop) {
        stepper_->drop_chunk(turn.kv);
        pace_.drop_chunk();
        return Status::ok();
    }
    if (stepper_->chunk_layers_left(turn.kv) == 0) RONDO_TRY(begin_chunk(turn));
    const int layers = std::min(stepper_->chunk_layers_left(turn.kv), chunk.layers_max);
    return stepper_->run_chunk(turn.kv, pace_.begin_chunk(turn.chunk_rows, chunk.budget_seconds, layers));
}

Status DeviceRunner::begin_chunk(Turn& turn) {
    if (turn.ahead.count() > 0) return begin_ahead(turn);
    const DecodeAttention answer = turn.decode();
    if (turn.step_attention == nullptr && answer.method != DecodeAttention::Method::dense) {
        RONDO_ASSIGN(turn.step_attention,
                     StepAttention::create(runtime_->model.spec, *runtime_->pool, runtime_->answers_device(),
                                           StepAttention::options_of(answer)));
    }
    if (turn.rounds == nullptr && turn.message_begin > 0) {
        RONDO_ASSIGN(turn.rounds, RoundAttention::create(runtime_->model.spec, *runtime_->pool,
                                                         runtime_->methods[turn.method].rounds));
        turn.rounds->begin_message(turn.round_ends.front(), turn.message_begin, turn.prompt_tokens);
    }
    turn.chunk_rows = std::min(turn.missing(), stepper_->chunk_tokens());
    if (turn.rounds != nullptr) turn.chunk_rows = turn.rounds->within_chunk(turn.kv.tokens(), turn.chunk_rows);
    const auto ids = std::span<const int32_t>(turn.ids).subspan(static_cast<size_t>(turn.kv.tokens()),
                                                                static_cast<size_t>(turn.chunk_rows));
    const bool last = turn.chunk_rows == turn.missing();
    return stepper_->begin_chunk(
        turn.kv, ids, last ? BatchPart::Logits::last : BatchPart::Logits::none,
        {.prefill = (*prompts_)[turn.method].get(), .decode = turn.step_attention.get(), .rounds = turn.rounds.get()});
}

/// Of what stands before keys that are on their way.
Status DeviceRunner::begin_ahead(Turn& turn) {
    turn.chunk_rows = std::min(turn.ahead.count(), stepper_->chunk_tokens());
    const auto ids = std::span<const int32_t>(turn.ids).subspan(static_cast<size_t>(turn.ahead.begin),
                                                                static_cast<size_t>(turn.chunk_rows));
    return stepper_->begin_chunk_within(turn.kv, turn.ahead.begin, ids);
}

Status DeviceRunner::issue(ChoiceJob& job) {
    Choice& choice = *job.choice;
    return choice.on_device(pace_.begin_choice(choice.tokens(), choice.layers_to_score(), job.due_step));
}

void DeviceRunner::answer(const Status& status) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    Piece piece = std::move(*current_);
    current_.reset();
    *at_work_since_ns_ = 0;
    if (const auto* const chunk = std::get_if<Asked<Chunk>>(&piece)) count_lines(*chunk->work->turn);
    std::visit(
        [&](auto& asked) {
            asked.work->status = status;
            asked.work->seconds = seconds;
            if (status) collect(*asked.work);
            asked.promise.deliver(asked.work);
        },
        piece);
    ++progress_->done;
    progress_->last_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    issue_next();
}

/// Also of a chunk that failed: what its first layers counted must not become the next turn's.
void DeviceRunner::count_lines(Turn& turn) {
    SparsePrefill* const lines = (*prompts_)[turn.method].get();
    if (lines == nullptr) return;
    turn.prompt_attention += lines->stats();
    lines->clear_stats();
}

void DeviceRunner::collect(Step& step) {
    pace_.end_step(step.number, step.seconds);
    for (size_t i = 0; i < step.turns.size(); ++i) {
        Turn& turn = *step.turns[i];
        turn.take(turn.answer.next(stepper_->decode_logits(i)));
        turn.end_step();
    }
}

void DeviceRunner::collect(Chunk& chunk) {
    const int layers_left = stepper_->chunk_layers_left(chunk.turn->kv);
    chunk.open = layers_left > 0;
    chunk.layer = chunk.open ? stepper_->layers() - layers_left : 0;
    pace_.end_chunk(chunk.seconds);
    Turn& turn = *chunk.turn;
    turn.computed.seconds += chunk.seconds;
    if (!chunk.open && !chunk.drop) {
        const bool ahead = turn.ahead.count() > 0;
        turn.computed.add(ahead ? turn.ahead.begin : turn.kv.tokens() - turn.chunk_rows, turn.chunk_rows);
        if (ahead) turn.ahead.begin += turn.chunk_rows;
    }
    if (chunk.drop || chunk.open || turn.missing() > 0) return;
    turn.take(turn.answer.next(stepper_->chunk_logits()));
    turn.end_prompt(stepper_->device());
    chunk.done = true;
}

void DeviceRunner::collect(ChoiceJob& job) {
    pace_.end_choice(job.seconds);
}

}  // namespace rondo
