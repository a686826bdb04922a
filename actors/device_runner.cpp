#include "actors/device_runner.hpp"

#include <algorithm>
#include <cmath>

namespace rondo {

namespace {

/// What a unit of work takes: believed at once when it takes longer, and slowly when it takes less, so that a piece
/// seldom holds others up for longer than it may.
void learn(double& seconds, double measured) {
    seconds = std::max(measured, (7 * seconds + measured) / 8);
}

}  // namespace

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
    waiting_.clear();
    current_.reset();
    *at_work_since_ns_ = 0;
    stepper_.reset();
    prompts_.reset();
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
    if (!issued) return answer(issued);  // refused whole: nothing has changed
    // The device calls back on a thread of its own, or at once; either way the news is a message.
    const auto self = caf::actor_cast<device_runner_actor>(this);
    issued = stepper_->device().notify(StreamId::compute, [self](const Status& status) {
        caf::anon_send(self, done_atom::value, std::make_shared<const Status>(status));
    });
    if (!issued) complete(issued);
}

void DeviceRunner::complete(const Status& status) {
    // A device that fails underway may have written anything; the supervisor starts all over.
    if (!status) return quit(to_caf(status.error()));
    answer(status);
}

Status DeviceRunner::issue(Step& step) {
    std::vector<Stepper::Row> rows;
    rows.reserve(step.turns.size());
    for (const TurnPtr& turn : step.turns) rows.push_back({&turn->kv, turn->ids.back(), turn->step_attention.get()});
    step_number_ = step.number;
    return stepper_->decode(rows);
}

Status DeviceRunner::issue(Chunk& chunk) {
    Turn& turn = *chunk.turn;
    if (chunk.drop) {
        stepper_->drop_chunk(turn.kv);
        issued_layers_ = 0;
        return Status::ok();
    }
    if (stepper_->chunk_layers_left(turn.kv) == 0) RONDO_TRY(begin_chunk(turn));
    const double per_layer = seconds_per_row_layer_ * static_cast<double>(turn.chunk_rows);
    const double layers = per_layer > 0.0 ? chunk.budget_seconds / per_layer : 1.0;
    issued_layers_ =
        static_cast<int>(std::clamp(layers, 1.0, static_cast<double>(stepper_->chunk_layers_left(turn.kv))));
    return stepper_->run_chunk(turn.kv, issued_layers_);
}

Status DeviceRunner::begin_chunk(Turn& turn) {
    const DecodeAttention answer = turn.decode();
    if (turn.step_attention == nullptr && answer.method != DecodeAttention::Method::dense) {
        RONDO_ASSIGN(turn.step_attention,
                     StepAttention::create(runtime_->model.spec, *runtime_->pool, *runtime_->devices.back(),
                                           StepAttention::options_of(answer)));
    }
    turn.chunk_rows = std::min(turn.missing(), stepper_->chunk_tokens());
    const auto tokens = std::span<const int32_t>(turn.ids).subspan(static_cast<size_t>(turn.kv.tokens()),
                                                                   static_cast<size_t>(turn.chunk_rows));
    return stepper_->begin_chunk(turn.kv, tokens, turn.chunk_rows == turn.missing(),
                                 {(*prompts_)[turn.method].get(), turn.step_attention.get(), nullptr});
}

/// Decode steps wait for it about a quarter of their own time; for as long as they take, if it would be late else.
Status DeviceRunner::issue(ChoiceJob& job) {
    Choice& choice = *job.choice;
    const double per_layer = seconds_per_key_layer_ * static_cast<double>(choice.keys());
    const double in_a_step = per_layer > 0.0 ? step_seconds_ / per_layer : 4.0;
    const auto left = static_cast<double>(choice.layers_to_score());
    // The last piece scores nothing, it puts together what was chosen.
    const double steps_left = static_cast<double>(job.due_step) - static_cast<double>(step_number_);
    const double in_time = std::ceil(left / std::max(1.0, steps_left - 1.0));
    const int issued = static_cast<int>(std::min(std::max(std::clamp(in_time, in_a_step / 4, in_a_step), 1.0), left));
    issued_keys_ = issued * choice.keys();
    return choice.on_device(issued);
}

void DeviceRunner::answer(const Status& status) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    Piece piece = std::move(*current_);
    current_.reset();
    *at_work_since_ns_ = 0;
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

void DeviceRunner::collect(Step& step) {
    step_seconds_ = step.seconds;
    for (size_t i = 0; i < step.turns.size(); ++i) {
        Turn& turn = *step.turns[i];
        turn.take(turn.answer.next(stepper_->decode_logits(i)));
    }
}

void DeviceRunner::collect(Chunk& chunk) {
    chunk.open = stepper_->chunk_layers_left(chunk.turn->kv) > 0;
    if (issued_layers_ > 0)
        learn(seconds_per_row_layer_, chunk.seconds / static_cast<double>(issued_layers_ * chunk.turn->chunk_rows));
    Turn& turn = *chunk.turn;
    if (SparsePrefill* const lines = (*prompts_)[turn.method].get(); lines != nullptr) {
        turn.prompt_attention += lines->stats();
        lines->clear_stats();
    }
    if (chunk.drop || chunk.open || turn.missing() > 0) return;
    turn.take(turn.answer.next(stepper_->chunk_logits()));
    chunk.done = true;
}

void DeviceRunner::collect(ChoiceJob& job) {
    if (issued_keys_ > 0) learn(seconds_per_key_layer_, job.seconds / static_cast<double>(issued_keys_));
}

}  // namespace rondo
