#include "cli/measure/multi_turn/replay.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/measure/multi_turn/schedule.hpp"
#include "cli/measure/multi_turn/words.hpp"

namespace rondo::cli::multi_turn {

using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto progress_every = std::chrono::milliseconds(100);
// A turn that leaves later than this was not sent when the workload wanted it.
constexpr double late_s_max = 0.05;
constexpr uint64_t shared_text_stream = 0;

json message(const char* role, std::string content) {
    return {{"role", role}, {"content", std::move(content)}};
}

/// One conversation as its client sees it. The schedule gives it to one thread at a time.
class Conversation {
public:
    Conversation(const ReplayOptions& options, ConversationPlan plan, size_t index, const std::string& shared_prefix)
        : options_(options),
          plan_(std::move(plan)),
          random_(options.seed, 2 * index + 2),
          id_(options.stateful ? options.conversation + "-" + std::to_string(index) : "") {
        if (!shared_prefix.empty()) messages_.push_back(message("system", shared_prefix));
    }

    size_t round() const { return round_; }
    size_t turns_left() const { return plan_.turns.size() - round_; }
    const std::string& id() const { return id_; }  ///< "" where the server keeps nothing
    bool begun() const { return begun_; }

    Question next_question() {
        begun_ = true;
        const TurnPlan& turn = plan_.turns[round_];
        std::string text;
        if (round_ == 0 && plan_.own_prefix_tokens > 0) text = draw(plan_.own_prefix_tokens) + "\n\n";
        messages_.push_back(message("user", text + draw(turn.user_tokens)));
        return {messages_, turn.answer_tokens, id_};
    }

    void take_answer(std::string text) {
        if (options_.fixed_history) text = draw(plan_.turns[round_].answer_tokens);
        ++round_;
        if (options_.stateful || turns_left() == 0) {
            messages_.clear();
        } else {
            messages_.push_back(message("assistant", std::move(text)));
        }
    }

private:
    std::string draw(int64_t tokens) { return draw_tokens(random_, tokens, options_.tokens_per_word); }

    const ReplayOptions& options_;
    ConversationPlan plan_;
    Seeded random_;
    std::string id_;
    json messages_ = json::array();
    size_t round_ = 0;
    bool begun_ = false;
};

class Replay {
public:
    Replay(const Endpoint& endpoint, const ReplayOptions& options)
        : endpoint_(endpoint), options_(options), schedule_(options.workload, options.seed) {
        Seeded random(options.seed, shared_text_stream);
        const std::string shared = draw_tokens(random, options.workload.shared_prefix_tokens, options.tokens_per_word);
        std::vector<ConversationPlan> plans = plan(options.workload, options.seed);
        turns_ = count_turns(plans);
        conversations_.reserve(plans.size());
        for (size_t i = 0; i < plans.size(); ++i) {
            conversations_.emplace_back(options, std::move(plans[i]), i, shared);
        }
    }

    Result<Replayed> run(const std::function<bool(double)>& on_progress) {
        std::vector<std::thread> clients;
        start_ = Clock::now();
        Status status;
        try {
            const int64_t count = std::min(options_.workload.clients, options_.workload.active);
            for (int64_t i = 0; i < count; ++i) clients.emplace_back([this] { be_client(); });
        } catch (const std::system_error&) {
            status = make_error(ErrorCode::io, "no thread for client " + std::to_string(clients.size() + 1) +
                                                   "; --clients must be lower");
            stop();
        }
        watch(on_progress, clients.size());
        for (std::thread& client : clients) client.join();
        out_.stopped = stopped_;
        out_.tidied = tidy();
        RONDO_TRY(status);
        return std::move(out_);
    }

private:
    double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

    void be_client() {
        Endpoint endpoint = endpoint_.again();
        while (const std::optional<size_t> taken = take()) {
            Conversation& conversation = conversations_[*taken];
            const Question question = conversation.next_question();
            Answer answer = endpoint.ask(question, [this] { return !stopped_; });
            answer.times.round = conversation.round();
            const bool good = answer.times.error.empty();
            conversation.take_answer(std::move(answer.text));
            put_back(*taken, std::move(answer.times), good ? conversation.turns_left() : 0,
                     good ? 0 : conversation.turns_left());
        }
        const std::lock_guard lock(mutex_);
        ++clients_over_;
        changed_.notify_all();
    }

    /// Sleeps until a conversation has its next turn; nothing when all are over.
    std::optional<size_t> take() {
        std::unique_lock lock(mutex_);
        while (!stopped_) {
            const Schedule::Step step = schedule_.next(now());
            if (step.kind == Schedule::Step::Kind::finished) return std::nullopt;
            if (step.kind == Schedule::Step::Kind::take) {
                if (step.late_s > late_s_max) ++out_.turns_late;
                return step.conversation;
            }
            if (std::isfinite(step.until_s)) {
                changed_.wait_until(lock, start_ + std::chrono::duration_cast<Clock::duration>(
                                                       std::chrono::duration<double>(step.until_s)));
            } else {
                changed_.wait(lock);
            }
        }
        return std::nullopt;
    }

    void put_back(size_t conversation, TurnTimes times, size_t turns_left, size_t skipped) {
        const std::lock_guard lock(mutex_);
        out_.seconds = now();
        out_.turns.push_back(std::move(times));
        out_.turns_skipped += static_cast<int64_t>(skipped);
        schedule_.done(conversation, out_.seconds, turns_left > 0);
        changed_.notify_all();
    }

    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }

    void watch(const std::function<bool(double)>& on_progress, size_t clients) {
        std::unique_lock lock(mutex_);
        while (clients_over_ < clients) {
            changed_.wait_for(lock, progress_every);
            const int64_t over = static_cast<int64_t>(out_.turns.size()) + out_.turns_skipped;
            if (on_progress(static_cast<double>(over) / static_cast<double>(turns_))) continue;
            stopped_ = true;
            changed_.notify_all();
        }
    }

    /// Deletes the run's conversations: a server keeps a limited number, and nobody needs these. A server that fails to
    /// delete one is not asked again.
    Status tidy() {
        Endpoint endpoint = endpoint_.again();
        for (const Conversation& conversation : conversations_) {
            if (conversation.begun() && !conversation.id().empty()) RONDO_TRY(endpoint.forget(conversation.id()));
        }
        return Status::ok();
    }

    const Endpoint& endpoint_;
    const ReplayOptions& options_;
    Clock::time_point start_;
    int64_t turns_ = 0;
    std::vector<Conversation> conversations_;
    std::mutex mutex_;  ///< of everything below
    std::condition_variable changed_;
    Schedule schedule_;
    Replayed out_;
    size_t clients_over_ = 0;
    std::atomic<bool> stopped_ = false;  ///< raised under the mutex
};

}  // namespace

Result<Replayed> replay(const Endpoint& endpoint, const ReplayOptions& options,
                        const std::function<bool(double)>& on_progress) {
    return Replay(endpoint, options).run(on_progress);
}

}  // namespace rondo::cli::multi_turn
