#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/ask.hpp"
#include "actors/gateway/bodies/answer_parts.hpp"
#include "actors/gateway/bodies/answer_request.hpp"
#include "actors/gateway/bodies/responses_answer.hpp"
#include "actors/gateway/bodies/token_logprobs.hpp"
#include "actors/gateway/gateway.hpp"

namespace rondo {

/// A request for answers to a prompt or to several: runs a turn for each, and tells the client as it wished. The first
/// of all goes ahead, so that all are let in or none; then the first to each prompt, so that the others find it
/// computed.
class AnswerExchange : public std::enable_shared_from_this<AnswerExchange> {
public:
    enum class Api { chat, completion, responses };

    AnswerExchange(const Engine& engine, std::shared_ptr<Exchange> exchange, Api api, AnswerHead head,
                   AnswerRequest request, Ask ask);
    void start();
    /// Before that, of a response: what it repeats of its request.
    void repeat(OrderedJson told_back) { response_.emplace(head_, std::move(told_back)); }
    /// Before that: hears once, when nothing more is answered, whether the answers are whole.
    void on_over(std::function<void(bool whole)> over) { over_ = std::move(over); }
    /// Before that, in place of the ask's own prompt: one that gets `n` answers, which begin with `echo`.
    void add_prompt(std::vector<int32_t> ids, std::string echo);

private:
    struct Prompt {
        std::vector<int32_t> ids;
        std::string echo;
    };
    struct Choice {
        TurnId turn = 0;
        FinishedAnswer answer;
        CompletionLogprobs logprobs;
        bool started = false, ended = false;
    };

    void start_choice(size_t index);
    void grew(size_t index, TurnDelta delta);
    void ended(size_t index, TurnEnd end);
    void begin_stream();
    std::string begin_event(size_t index);
    std::string delta_event(size_t index, const TurnDelta& delta);
    std::string finish_event(size_t index, const TurnEnd& end);
    std::string whole_body(std::span<const FinishedAnswer> answers);
    void fail(const TurnEnd& end);
    void write(std::string piece);
    void start_after(size_t index);
    void finish(std::unique_lock<std::recursive_mutex>& lock, std::string last);
    void cancel_all();

    const Asker asker_;  // turns may call back when the engine is gone
    const std::shared_ptr<Exchange> exchange_;
    const Api api_;
    AnswerHead head_;
    const AnswerRequest request_;
    Ask ask_;
    const TokenBytes bytes_of_;

    std::recursive_mutex mutex_;   // turns of one request call back from several threads, and a cancelled one at once
    std::vector<Prompt> prompts_;  // none: the ask's own
    std::vector<Choice> choices_;  // `n` to each prompt
    std::optional<ResponsesAnswer> response_;
    std::function<void(bool)> over_;
    bool streaming_ = false, gone_ = false, finished_ = false;
};

}  // namespace rondo
