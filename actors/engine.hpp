#pragma once

#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/ask.hpp"
#include "actors/front.hpp"
#include "config/attention_methods.hpp"
#include "config/settings.hpp"

namespace rondo {

/// Who hears of a turn without being an actor.
struct TurnCallbacks {
    /// On a thread of the actor system; they must not block, nor throw. If `on_delta` throws, its turn is cancelled and
    /// fails; what `on_end` throws is lost. `on_end` is called once, and last.
    std::function<void(TurnDelta)> on_delta;
    std::function<void(TurnEnd)> on_end;
};

class Engine;
class EngineInside;

/// Asks an engine for turns, and cancels them; the engine makes it. On a host's actor system a copy may outlive the
/// engine: what is asked for then fails at once, through its callbacks.
class Asker {
public:
    /// The callbacks hear of the turn on threads of the actor system, which has few: nothing should wait in them.
    /// Returns the id to cancel it with: the one that the Ask came with, if it did.
    TurnId ask(Ask ask, TurnCallbacks callbacks) const;
    void cancel(TurnId turn) const;

private:
    friend class Engine;
    Asker(caf::actor_system& system, front_actor front, std::shared_ptr<std::atomic<TurnId>> last_turn)
        : system_(&system), front_(std::move(front)), last_turn_(std::move(last_turn)) {}

    caf::actor_system* system_;
    front_actor front_;
    std::shared_ptr<std::atomic<TurnId>> last_turn_;
};

/// The whole of Rondo in a host's process: a model, its devices and the actors that serve conversations with it.
///
///     RONDO_ASSIGN(auto engine, Engine::open(settings));
///     auto turn = engine->ask({.conversation = {"", "c1"}, .messages = {{"user", "Hello"}}});
///     std::puts(turn.get().text.c_str());
///
/// Or by actors: `front()` takes `Ask`s and tells a listener of the host's own (docs/embedding.md).
class Engine {
public:
    /// None of the callbacks may block or throw.
    struct Options {
        caf::actor_system* host = nullptr;  ///< none: the engine runs one of its own
        /// Turns come from several tenants (ConversationName::tenant): none may take all places of turns, texts and
        /// conversations from the others. With server.api_keys_file they do anyway.
        bool several_tenants = false;
        std::function<void(double)> progress;  ///< of loading, 0 to 1
        /// Hears one line each time a stage dies: which, and why.
        std::function<void(const std::string&)> log;
        /// The stages died too often, or did not end, or router or supervisor died: nothing will be served any more.
        std::function<void(Error)> gave_up;
    };
    /// A whole answer.
    struct Reply {
        std::string text;
        std::vector<int32_t> ids;
        std::vector<ToolCallPiece> calls;  ///< of tools, each whole
        TurnEnd end;
    };

    /// `check_settings` checks them first, whoever has filled them.
    static Result<std::unique_ptr<Engine>> open(const Settings& settings, Options options);
    static Result<std::unique_ptr<Engine>> open(const Settings& settings) { return open(settings, Options{}); }
    /// Ends every turn, and waits for the actors to be gone. In a callback it returns before they are.
    ~Engine();
    /// Begins that without waiting. Nothing may be asked for afterwards.
    void shut_down();

    /// Waits until what conversations have computed is on the disk (memory.disk), no longer than this; false: some is
    /// not, or the store cannot be used. For before the engine's end: what is under way then is given up.
    bool put_away(std::chrono::milliseconds within);
    /// What a conversation has computed goes to the disk, and its memory is free. Returns the tokens that were in it.
    Result<int64_t> put_away(const ConversationName& name);
    /// What is known of a conversation is brought to memory, from the disk or by computing it, before it goes on.
    std::future<Reply> warm(const ConversationName& name);

    /// Tools for Ask::tools: a JSON list of functions in OpenAI's form. An error where the model cannot call any.
    Result<std::shared_ptr<const ToolUse>> tools(std::string_view list, const ToolChoice& choice = {}) const;

    /// For whoever may be called back when the engine is gone.
    Asker asker() const;
    TurnId ask(Ask ask, TurnCallbacks callbacks) { return asker().ask(std::move(ask), std::move(callbacks)); }
    /// For an Ask that may have to be cancelled before `front` answers, or before `ask` returns.
    TurnId new_turn_id();
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

    /// That turns may ask for by name. The first is what turns get that do not ask.
    const std::vector<AttentionMethod>& methods() const;
    const std::string& model_name() const;
    int64_t context_tokens() const;
    /// A text as ids, with the special tokens that the model wants around it: for Ask::ids.
    Result<std::vector<int32_t>> tokenize(std::string_view text) const;
    Result<std::string> detokenize(std::span<const int32_t> ids) const;

    /// For actors of the host's own.
    front_actor front() const;
    caf::actor_system& system();
    /// What computes, for people.
    std::string device_names() const;

private:
    friend class EngineInside;
    explicit Engine(std::unique_ptr<EngineInside> inside);
    template <class Answer, class... Request>
    Result<Answer> request(Request... request);

    std::unique_ptr<EngineInside> inside_;
};

}  // namespace rondo
