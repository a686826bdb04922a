#pragma once

#include <atomic>
#include <caf/all.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "actors/device_runner.hpp"
#include "actors/handles.hpp"
#include "actors/metrics.hpp"
#include "actors/router.hpp"
#include "actors/supervisor.hpp"
#include "actors/text_workers.hpp"
#include "actors/turn_port.hpp"
#include "config/settings.hpp"
#include "model/model.hpp"

namespace rondo {

/// Asks an engine for turns, and cancels them. On a host's actor system a copy may outlive the engine: what is asked
/// for then fails at once, through its callbacks.
class Asker {
public:
    Asker(caf::actor_system& system, router_actor router, std::shared_ptr<std::atomic<TurnId>> last_turn)
        : system_(&system), router_(std::move(router)), last_turn_(std::move(last_turn)) {}

    /// The callbacks hear of the turn on threads of the actor system, which has few: nothing should wait in them.
    /// Returns the id to cancel it with.
    TurnId ask(Ask ask, TurnPort::Callbacks callbacks) const;
    void cancel(TurnId turn) const;

private:
    caf::actor_system* system_;
    router_actor router_;
    std::shared_ptr<std::atomic<TurnId>> last_turn_;
};

/// The whole of Rondo in a host's process: a model, its devices and the actors that serve conversations with it.
///
///     RONDO_ASSIGN(auto engine, Engine::open(settings));
///     auto turn = engine->ask({.conversation = {"", "c1"}, .messages = {{"user", "Hello"}}});
///     std::puts(turn.get().text.c_str());
///
/// Or by actors: `front()` takes `Ask`s and tells a listener of the host's own.
class Engine {
public:
    struct Options {
        caf::actor_system* host = nullptr;     ///< none: the engine runs one of its own
        std::function<void(double)> progress;  ///< of loading, 0 to 1
        /// Hears one line each time a stage dies: which, and why.
        std::function<void(const std::string&)> log;
        /// The stages died too often, or did not end, or router or supervisor died: nothing will be served any more.
        std::function<void(Error)> gave_up;
        /// Told of the stages each time they are started.
        std::function<void(const Supervisor::Pipeline&)> started;
        bool own_threads = true;  ///< for runners, selector and texts; off under CAF's test scheduler
    };
    /// A whole answer.
    struct Reply {
        std::string text;
        std::vector<int32_t> ids;
        TurnEnd end;
    };

    static Result<std::unique_ptr<Engine>> open(const Settings& settings, Options options);
    static Result<std::unique_ptr<Engine>> open(const Settings& settings) { return open(settings, Options{}); }
    /// Ends every turn, and waits for the actors to be gone.
    ~Engine();
    /// Begins that without waiting. Nothing may be asked for afterwards.
    void shut_down();

    /// For whoever may be called back when the engine is gone.
    Asker asker() const { return {*system_, router_, last_turn_}; }
    TurnId ask(Ask ask, TurnPort::Callbacks callbacks) { return asker().ask(std::move(ask), std::move(callbacks)); }
    /// For an Ask that is sent to `front` and may have to be cancelled before that answers.
    TurnId new_turn_id() { return ++*last_turn_; }
    std::future<Reply> ask(Ask ask);
    void cancel(TurnId turn) { asker().cancel(turn); }

    /// Waits for what a conversation's session says.
    Result<ConversationInfoPtr> create(const ConversationName& name, const Preamble& preamble);
    Result<ConversationInfoPtr> conversation(const ConversationName& name);
    Result<ConversationPagePtr> conversations(const PageOf& wanted);  ///< the newest first
    Result<ConversationInfoPtr> rewind(const ConversationName& name, int64_t round);
    Result<ConversationInfoPtr> drop(const ConversationName& name, const RoundList& rounds);
    Result<ConversationInfoPtr> fork(const ConversationName& from, const ConversationName& to);
    Result<bool> remove(const ConversationName& name);

    /// The number of a method that turns may ask for; an error names all of them.
    Result<size_t> method(std::string_view name) const { return runtime_->method(name); }
    /// The first is what turns get that do not ask.
    const std::vector<AttentionMethod>& methods() const { return runtime_->methods; }
    /// For whoever may compute with any of it when the engine is gone.
    std::shared_ptr<const Runtime> runtime() const { return runtime_; }
    const Model& model() const { return runtime_->model; }
    int64_t context_tokens() const { return runtime_->context_tokens; }
    const KvPool& pool() const { return *runtime_->pool; }
    const Load& load() const { return *load_; }
    const Progress& progress() const { return *progress_; }
    Metrics& metrics() { return *metrics_; }
    size_t running_max() const { return running_max_; }
    /// For actors of the host's own (docs/embedding.md).
    front_actor front() const { return router_; }
    router_actor router() const { return router_; }
    supervisor_actor supervisor() const { return supervisor_; }
    caf::actor_system& system() { return *system_; }
    std::string device_names() const;

private:
    Engine() = default;
    Status load_all(const Settings& settings, const Options& options);
    void start(const Settings& settings, const Options& options);
    Result<std::shared_ptr<DeviceRunner::PromptAttention>> prompt_attention(Device& device) const;
    template <class Actor>
    void watch(const Actor& actor, const char* name, const std::function<void(Error)>& gave_up);
    Result<Supervisor::Pipeline> start_stages(caf::local_actor& self, const Settings& settings, bool detached);
    template <class Answer, class... Request>
    Result<Answer> request(Request... request);

    RuntimePtr runtime_ = std::make_shared<Runtime>();
    std::shared_ptr<Load> load_ = std::make_shared<Load>();
    std::shared_ptr<Metrics> metrics_;
    std::shared_ptr<TextWorkers> texts_;  // used by sessions, which may go later; ends with the engine
    size_t running_max_ = 0;
    std::shared_ptr<Progress> progress_;
    std::unique_ptr<caf::actor_system_config> own_config_;
    std::unique_ptr<caf::actor_system> own_system_;
    caf::actor_system* system_ = nullptr;
    router_actor router_;
    supervisor_actor supervisor_;
    std::shared_ptr<std::atomic<bool>> ending_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<TurnId>> last_turn_ = std::make_shared<std::atomic<TurnId>>(0);
};

}  // namespace rondo
