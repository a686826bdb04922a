#include "actors/gateway/answer_exchange.hpp"

#include <algorithm>
#include <random>

#include "actors/engine_inside.hpp"
#include "actors/gateway/bodies/chat_response.hpp"
#include "actors/gateway/bodies/completion_response.hpp"
#include "actors/gateway/bodies/event_stream.hpp"
#include "actors/places.hpp"

namespace rondo {

namespace {

uint64_t drawn_seed() {
    static thread_local std::mt19937_64 random{std::random_device{}()};
    return random();
}

}  // namespace

AnswerExchange::AnswerExchange(const Engine& engine, std::shared_ptr<Exchange> exchange, Api api, AnswerHead head,
                               AnswerRequest request, Ask ask)
    : asker_(engine.asker()),
      exchange_(std::move(exchange)),
      api_(api),
      head_(std::move(head)),
      request_(std::move(request)),
      ask_(std::move(ask)),
      bytes_of_([runtime = inside(engine).runtime()](int32_t id) {
          const Tokenizer* const tokenizer = runtime->model.tokenizer.get();
          return tokenizer == nullptr ? std::string() : tokenizer->bytes_of(id, true);
      }),
      choices_(static_cast<size_t>(request_.n)) {
    head_.each_prompt = choices_.size();
}

void AnswerExchange::add_prompt(std::vector<int32_t> ids, std::string echo) {
    prompts_.push_back({std::move(ids), std::move(echo)});
    choices_ = std::vector<Choice>(prompts_.size() * head_.each_prompt);
    for (size_t i = 0; i < choices_.size(); ++i) choices_[i].answer.delta.text = prompts_[i / head_.each_prompt].echo;
}

void AnswerExchange::start() {
    if (choices_.size() > 1) ask_.places = std::make_shared<Places>(choices_.size());
    exchange_->on_gone([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->cancel_all();
    });
    const std::lock_guard lock(mutex_);
    if (!gone_) return start_choice(0);
    if (over_) over_(false);
}

void AnswerExchange::start_choice(size_t index) {
    if (std::exchange(choices_[index].started, true)) return;
    Ask ask = ask_;
    if (!prompts_.empty()) ask.ids = prompts_[index / head_.each_prompt].ids;
    ask.options.sampling.seed = (request_.seed_given ? ask.options.sampling.seed : drawn_seed()) + index;
    TurnCallbacks callbacks;
    callbacks.on_delta = [self = shared_from_this(), index](TurnDelta delta) { self->grew(index, std::move(delta)); };
    callbacks.on_end = [self = shared_from_this(), index](TurnEnd end) { self->ended(index, std::move(end)); };
    choices_[index].turn = asker_.ask(std::move(ask), std::move(callbacks));
}

/// Those that waited for this one: it is let in, and its prompt is computed.
void AnswerExchange::start_after(size_t index) {
    if (gone_ || index % head_.each_prompt != 0) return;
    for (size_t i = index + 1; i < index + head_.each_prompt; ++i) start_choice(i);
    for (size_t i = 0; index == 0 && i < choices_.size(); i += head_.each_prompt) start_choice(i);
}

void AnswerExchange::grew(size_t index, TurnDelta delta) {
    const std::lock_guard lock(mutex_);
    if (finished_ || gone_) return;
    start_after(index);
    if (request_.stream) {
        begin_stream();
        return write(delta_event(index, delta));
    }
    TurnDelta& all = choices_[index].answer.delta;
    all.text += delta.text;
    add_calls(delta.calls, all.calls);
    all.thought += delta.thought;
    all.ids.insert(all.ids.end(), delta.ids.begin(), delta.ids.end());
    for (auto& logprobs : delta.logprobs) all.logprobs.push_back(std::move(logprobs));
}

void AnswerExchange::ended(size_t index, TurnEnd end) {
    std::unique_lock lock(mutex_);
    Choice& choice = choices_[index];
    choice.ended = true;
    choice.answer.end = std::move(end);
    if (finished_) return;
    const TurnEnd& how = choice.answer.end;
    const bool whole = how.outcome == TurnOutcome::stop || how.outcome == TurnOutcome::length;
    if (!whole) return fail(how);
    std::string last;
    if (request_.stream) {
        begin_stream();
        last = finish_event(index, how);
    }
    start_after(index);
    if (std::ranges::all_of(choices_, &Choice::ended)) return finish(lock, std::move(last));
    write(std::move(last));
}

/// One answer that cannot be had fails the request.
void AnswerExchange::fail(const TurnEnd& end) {
    finished_ = true;
    const ApiError error = exchange_->failure(error_of(end));
    exchange_->count(end.usage);
    cancel_all();
    if (over_) over_(false);
    if (!streaming_) return exchange_->send_error(error);
    exchange_->finish_stream(response_ ? response_->fail(error) : stream_error(error));
}

/// What ends a stream leaves as one piece, so that nothing can come between. To write a long answer takes long, and
/// whoever hears meanwhile that its client is gone must not wait for that.
void AnswerExchange::finish(std::unique_lock<std::recursive_mutex>& lock, std::string last) {
    finished_ = true;
    std::vector<FinishedAnswer> answers;
    for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
    lock.unlock();
    const TurnUsage usage = usage_of(answers, head_.each_prompt);
    exchange_->count(usage);
    if (over_) over_(true);
    if (!request_.stream) return exchange_->send_json(200, whole_body(answers));
    if (response_) return exchange_->finish_stream(std::move(last));
    last += api_ == Api::chat ? chat_usage_event(head_, usage) : completion_usage_event(head_, usage);
    exchange_->finish_stream(std::move(last) + stream_done());
}

std::string AnswerExchange::begin_event(size_t index) {
    if (response_) return response_->begin();
    const auto i = static_cast<int>(index);
    if (api_ == Api::chat) return chat_role_event(head_, i);
    Choice& choice = choices_[index];  // which begins with its echo
    return completion_delta_event(head_, i, choice.answer.delta, choice.logprobs, bytes_of_);
}

std::string AnswerExchange::delta_event(size_t index, const TurnDelta& delta) {
    if (response_) return response_->add(delta);
    const auto i = static_cast<int>(index);
    if (api_ == Api::chat) return chat_delta_event(head_, i, delta, bytes_of_);
    return completion_delta_event(head_, i, delta, choices_[index].logprobs, bytes_of_);
}

std::string AnswerExchange::finish_event(size_t index, const TurnEnd& end) {
    if (response_) return response_->finish(end);
    const auto i = static_cast<int>(index);
    return api_ == Api::chat ? chat_finish_event(head_, i, end) : completion_finish_event(head_, i, end);
}

std::string AnswerExchange::whole_body(std::span<const FinishedAnswer> answers) {
    if (response_) {
        response_->add(answers.front().delta);
        response_->finish(answers.front().end);
        return response_->body();
    }
    return api_ == Api::chat ? chat_response(head_, answers, bytes_of_)
                             : completion_response(head_, answers, bytes_of_);
}

void AnswerExchange::begin_stream() {
    if (std::exchange(streaming_, true)) return;
    exchange_->begin_stream();
    for (size_t i = 0; i < choices_.size(); ++i) write(begin_event(i));
}

void AnswerExchange::write(std::string piece) {
    if (!piece.empty() && !gone_ && !exchange_->write(std::move(piece))) cancel_all();
}

/// The client is gone, or one of the answers is.
void AnswerExchange::cancel_all() {
    const std::lock_guard lock(mutex_);
    gone_ = gone_ || !finished_;
    if (gone_) exchange_->outcome("aborted");
    for (const Choice& choice : choices_)
        if (choice.turn != 0 && !choice.ended) asker_.cancel(choice.turn);
}

}  // namespace rondo
