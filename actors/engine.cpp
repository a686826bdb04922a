#include "actors/engine.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "actors/engine_inside.hpp"
#include "actors/host_callback.hpp"
#include "actors/logger_holder.hpp"
#include "actors/turn_port.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

/// Ends of engines that came in a callback, each on a thread of its own. The process's end waits for them, unless it is
/// a callback that ends it.
class EndsUnderWay {
public:
    ~EndsUnderWay() {
        constexpr std::chrono::seconds patience{5};
        std::unique_lock lock(mutex_);
        none_.wait_for(lock, patience, [this] { return count_ == 0; });
    }
    void begin(std::unique_ptr<EngineInside> inside) {
        // A host's system must not go before it.
        caf::actor_registry* const host = inside->has_own_system() ? nullptr : &inside->system().registry();
        if (host != nullptr) host->inc_running();
        inside->shut_down();
        {
            const std::lock_guard lock(mutex_);
            ++count_;
        }
        const auto over = [this, host] {
            if (host != nullptr) host->dec_running();
            const std::lock_guard lock(mutex_);
            if (--count_ == 0) none_.notify_all();
        };
        EngineInside* const ending = inside.release();
        try {
            std::thread([ending, over] {
                delete ending;
                over();
            }).detach();
        } catch (const std::system_error&) {  // no more threads: what it holds stays
            over();
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable none_;
    size_t count_ = 0;
};

EndsUnderWay& ends_under_way() {
    static EndsUnderWay ends;
    return ends;
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineInside> inside) : inside_(std::move(inside)) {}

/// Actors that call a host back wait for it, so the end of an engine in there cannot wait for them.
Engine::~Engine() {
    if (inside_ != nullptr && HostCallback::runs_here()) ends_under_way().begin(std::move(inside_));
}

Result<std::unique_ptr<Engine>> Engine::open(const Settings& settings, Options options) {
    RONDO_TRY(check_settings(settings));
    return EngineInside::open(settings, std::move(options), {});
}

void Engine::shut_down() {
    inside_->shut_down();
}

bool Engine::put_away(std::chrono::milliseconds within) {
    return inside_->put_away(within).is_ok();
}

Asker Engine::asker() const {
    return {inside_->system(), front(), inside_->last_turn()};
}

TurnId Engine::new_turn_id() {
    return ++*inside_->last_turn();
}

TurnId Asker::ask(Ask ask, TurnCallbacks callbacks) const {
    const LoggerHolder lets_go;
    auto asked = std::make_shared<Ask>(std::move(ask));
    if (asked->id == 0) asked->id = ++*last_turn_;  // the host's own is checked where it arrives
    asked->listener = system_->spawn<TurnPort>(front_, std::move(callbacks));
    const TurnId id = asked->id;
    caf::anon_send(front_, ask_atom::value, AskPtr(std::move(asked)));
    return id;
}

void Asker::cancel(TurnId turn) const {
    caf::anon_send(front_, cancel_atom::value, turn);
}

std::future<Engine::Reply> Engine::ask(Ask asked) {
    struct Gathered {
        Reply reply;
        std::promise<Reply> promise;
    };
    auto gathered = std::make_shared<Gathered>();
    TurnCallbacks callbacks;
    callbacks.on_delta = [gathered](TurnDelta delta) {
        gathered->reply.text += delta.text;
        add_calls(delta.calls, gathered->reply.calls);
        gathered->reply.ids.insert(gathered->reply.ids.end(), delta.ids.begin(), delta.ids.end());
    };
    callbacks.on_end = [gathered](TurnEnd end) {
        gathered->reply.end = std::move(end);
        gathered->promise.set_value(std::move(gathered->reply));
    };
    std::future<Reply> reply = gathered->promise.get_future();
    ask(std::move(asked), std::move(callbacks));
    return reply;
}

template <class Answer, class... Request>
Result<Answer> Engine::request(Request... what) {
    const LoggerHolder lets_go;
    caf::scoped_actor self{system()};
    Result<Answer> answer = make_error(ErrorCode::internal, "no answer");
    self->request(front(), front_answers_within, std::move(what)...)
        .receive([&](const Answer& value) { answer = value; },
                 [&](const caf::error& error) {
                     answer = error == caf::sec::request_receiver_down ? ended_engine() : from_caf(error, "the router");
                 });
    return answer;
}

Result<ConversationInfoPtr> Engine::create(const ConversationName& name, const Preamble& preamble) {
    return request<ConversationInfoPtr>(create_atom::value, name, preamble);
}

Result<ConversationInfoPtr> Engine::conversation(const ConversationName& name) {
    return request<ConversationInfoPtr>(list_atom::value, name);
}

Result<ConversationPagePtr> Engine::conversations(const PageOf& wanted) {
    return request<ConversationPagePtr>(list_atom::value, wanted);
}

Result<ConversationInfoPtr> Engine::rewind(const ConversationName& name, int64_t round) {
    return request<ConversationInfoPtr>(rewind_atom::value, name, round);
}

Result<ConversationInfoPtr> Engine::drop(const ConversationName& name, const RoundList& rounds) {
    return request<ConversationInfoPtr>(drop_atom::value, name, rounds);
}

Result<ConversationInfoPtr> Engine::fork(const ConversationName& from, const ConversationName& to) {
    return request<ConversationInfoPtr>(fork_atom::value, from, to);
}

Result<bool> Engine::remove(const ConversationName& name) {
    return request<bool>(remove_atom::value, name);
}

Result<int64_t> Engine::put_away(const ConversationName& name) {
    return request<int64_t>(away_atom::value, name);
}

std::future<Engine::Reply> Engine::warm(const ConversationName& name) {
    Ask asked;
    asked.conversation = name;
    asked.warms = true;
    return ask(std::move(asked));
}

const std::vector<AttentionMethod>& Engine::methods() const {
    return inside_->runtime()->methods;
}

const std::string& Engine::model_name() const {
    return inside_->model().name;
}

int64_t Engine::context_tokens() const {
    return inside_->runtime()->context_tokens;
}

Result<std::shared_ptr<const ToolUse>> Engine::tools(std::string_view list, const ToolChoice& choice) const {
    return inside_->model().tool_use(list, choice, "tools");
}

Result<std::vector<int32_t>> Engine::tokenize(std::string_view text) const {
    return inside_->model().encode_text(text);
}

Result<std::string> Engine::detokenize(std::span<const int32_t> ids) const {
    const Model& model = inside_->model();
    if (model.tokenizer == nullptr)
        return make_error(ErrorCode::not_found, "model " + model.name + " has no tokenizer; it must have one here");
    RONDO_TRY(check_ids(ids, model.spec.vocabulary));
    return model.tokenizer->decode(ids, true);
}

front_actor Engine::front() const {
    return inside_->router();
}

caf::actor_system& Engine::system() {
    return inside_->system();
}

std::string Engine::device_names() const {
    const Runtime& runtime = *inside_->runtime();
    if (runtime.devices.size() == 1) return runtime.devices[0]->name();
    std::string names;
    for (size_t i = 0; i < runtime.roles.prompts; ++i)
        names += (names.empty() ? "" : " and ") + runtime.devices[i]->name();
    return names + " for prompts, " + runtime.answers_device().name() + " for answers";
}

}  // namespace rondo
