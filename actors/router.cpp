#include "actors/router.hpp"

#include <algorithm>
#include <functional>

#include "actors/make_turn.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

constexpr auto answer_within = std::chrono::seconds(10);

}  // namespace

Router::behavior_type Router::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) { down(message); });
    return {
        [this](ask_atom, const AskPtr& asked) { ask(asked); },
        [this](cancel_atom, TurnId id) {
            if (const auto turn = turns_.find(id); turn != turns_.end())
                send(turn->second.session, cancel_atom::value, id);
        },
        [this](over_atom, TurnId id) { over(id); },
        [this](expire_atom) { expire(); },
        [this](create_atom, const ConversationName& name, const Preamble& preamble) {
            return create_info(name, preamble);
        },
        [this](list_atom, const Tenant& tenant) { return list(tenant); },
        [this](list_atom, const ConversationName& name) { return pass_on(name, list_atom::value); },
        [this](rewind_atom, const ConversationName& name, int64_t round) {
            return pass_on(name, rewind_atom::value, round);
        },
        [this](drop_atom, const ConversationName& name, const RoundList& rounds) {
            return pass_on(name, drop_atom::value, rounds);
        },
        [this](fork_atom, const ConversationName& from, const ConversationName& to) { return fork(from, to); },
        [this](remove_atom, const ConversationName& name) {
            const auto found = conversations_.find(name);
            if (found == conversations_.end()) return false;
            send(found->second, remove_atom::value);
            forget(found);
            return true;
        },
        [this](const StagesPtr& stages) { serve_by(stages); },
        [this](pause_atom) { pause(); },
    };
}

void Router::on_exit() {
    for (const auto& [name, session] : conversations_) send_exit(session, caf::exit_reason::user_shutdown);
    for (const auto& [id, turn] : turns_) {
        send_exit(turn.session, caf::exit_reason::user_shutdown);
        withdraw(id);
    }
    conversations_.clear();
    turns_.clear();
    load_->turns = load_->conversations = 0;
    stages_.reset();
}

void Router::refuse(const AskPtr& ask, Error error) {
    if (error.code == ErrorCode::overloaded) ++load_->refused;
    TurnEnd end;
    end.outcome = TurnOutcome::failed;
    end.error = std::move(error);
    send(ask->listener, std::move(end));
}

/// One turn, or room for it and those that will follow.
Status Router::let_in(const Ask& asked) {
    if (asked.places && asked.places->take()) return Status::ok();
    if (asked.places && asked.places->turns() > options_.turns_max) {
        return make_error(ErrorCode::out_of_range, std::to_string(asked.places->turns()) + " answers; at most " +
                                                       std::to_string(options_.turns_max) + " would be right here");
    }
    const size_t taken = turns_.size() + load_->places_held;
    const Tenant& tenant = asked.conversation.tenant;
    if (!turn_shares_.has_room(tenant, asked.places ? asked.places->turns() : 1, taken)) {
        return make_error(ErrorCode::overloaded, std::to_string(taken) + " turns are under way or waiting, " +
                                                     std::to_string(turn_shares_.held(tenant)) +
                                                     " of them this tenant's; asking later would be right");
    }
    if (asked.places) asked.places->hold(load_);
    return Status::ok();
}

void Router::ask(const AskPtr& asked) {
    if (load_->gave_up) return refuse(asked, make_error(ErrorCode::internal, "the pipeline has given up"));
    if (const Status status = let_in(*asked); !status) return refuse(asked, status.error());
    session_actor session;
    if (asked->conversation.id.empty()) {
        session = open(asked->conversation, Conversation(model_), true);
    } else if (const auto known = conversations_.find(asked->conversation); known != conversations_.end()) {
        session = known->second;
    } else if (asked->goes_on) {
        return refuse(asked, make_error(ErrorCode::not_found,
                                        "the conversation is not known any more; beginning another "
                                        "one with what was said would be right"));
    } else {
        Result<session_actor> made = create(asked->conversation, Conversation(model_));
        if (!made) return refuse(asked, made.error());
        session = *made;
    }
    const double deadline = now() + asked->deadline_seconds;
    if (turns_.empty()) load_->busy_since_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    turns_[asked->id] = {session, asked->conversation.tenant, deadline};
    turn_shares_.take(asked->conversation.tenant);
    load_->turns = turns_.size();
    deadlines_.emplace(deadline, asked->id);
    watch_deadlines();
    send(asked->listener, session);
    send(session, ask_atom::value, asked);
}

void Router::serve_by(const StagesPtr& stages) {
    stages_ = stages;
    load_->gave_up = stages == nullptr;
    tell_sessions(stages);
}

void Router::pause() {
    stages_.reset();
    tell_sessions(pause_atom::value);
}

template <class News>
void Router::tell_sessions(const News& news) {
    for (const auto& [name, session] : conversations_) send(session, news);
    // Those without a name: of clients who keep their history, and of conversations that were removed.
    for (const auto& [id, turn] : turns_)
        if (!names_.contains(turn.session.id())) send(turn.session, news);
}

session_actor Router::open(const ConversationName& name, Conversation conversation, bool ends_with_turn) {
    Session::Options options = options_.session;
    options.ends_with_turn = ends_with_turn;
    options.load = load_;
    const session_actor session = spawn<Session>(std::move(conversation), name, router_actor(this), stages_, options);
    monitor(session);
    return session;
}

Result<session_actor> Router::find(const ConversationName& name) const {
    const auto found = conversations_.find(name);
    if (found != conversations_.end()) return found->second;
    return make_error(ErrorCode::not_found, "no conversation of that id; one of those listed would be right");
}

Result<session_actor> Router::create(const ConversationName& name, Conversation conversation) {
    if (conversations_.contains(name))
        return make_error(ErrorCode::invalid_argument, "there is a conversation of that id; another id would be right");
    if (!conversation_shares_.has_room(name.tenant, 1, conversations_.size())) {
        return make_error(ErrorCode::overloaded, std::to_string(conversations_.size()) + " conversations are kept, " +
                                                     std::to_string(conversation_shares_.held(name.tenant)) +
                                                     " of them this tenant's; deleting one would be right");
    }
    const session_actor session = open(name, std::move(conversation), false);
    conversations_[name] = session;
    conversation_shares_.take(name.tenant);
    names_[session.id()] = name;
    load_->conversations = conversations_.size();
    return session;
}

void Router::forget(std::map<ConversationName, session_actor>::iterator conversation) {
    conversation_shares_.give_back(conversation->first.tenant);
    names_.erase(conversation->second.id());
    conversations_.erase(conversation);
    load_->conversations = conversations_.size();
}

void Router::over(TurnId id) {
    const auto turn = turns_.find(id);
    if (turn == turns_.end()) return;
    deadlines_.erase({turn->second.deadline, id});
    turn_shares_.give_back(turn->second.tenant);
    turns_.erase(turn);
    load_->turns = turns_.size();
}

void Router::expire() {
    if (now() < wake_at_) return;  // one that was sent before an earlier deadline came; the next is under way
    wake_at_ = 0.0;
    while (!deadlines_.empty() && deadlines_.begin()->first <= now()) {
        const TurnId id = deadlines_.begin()->second;
        deadlines_.erase(deadlines_.begin());
        send(turns_.at(id).session, expire_atom::value, id);
    }
    watch_deadlines();
}

/// One message is under way for the earliest deadline; a later one finds out when that comes.
void Router::watch_deadlines() {
    if (deadlines_.empty()) return;
    const double first = deadlines_.begin()->first;
    if (wake_at_ > 0.0 && wake_at_ <= first) return;
    wake_at_ = first;
    const auto wait = std::chrono::duration<double>(std::max(first - now(), 0.0));
    delayed_send(this, std::chrono::duration_cast<caf::timespan>(wait) + std::chrono::milliseconds(1),
                 expire_atom::value);
}

void Router::down(const caf::down_msg& message) {
    if (const auto name = names_.find(message.source.id()); name != names_.end()) {
        forget(conversations_.find(name->second));
    }
    std::vector<TurnId> gone;
    for (const auto& [id, turn] : turns_)
        if (turn.session.address() == message.source) gone.push_back(id);
    for (const TurnId id : gone) {
        withdraw(id);
        over(id);
    }
}

/// A session that died cannot take its turn back from the stage that holds it.
void Router::withdraw(TurnId id) {
    if (!stages_) return;
    send(stages_->restore, withdraw_atom::value, id);
    send(stages_->prefill, withdraw_atom::value, id);
    send(stages_->decode, withdraw_atom::value, id);
}

template <class... Request>
caf::typed_response_promise<ConversationInfoPtr> Router::pass_on(const ConversationName& name, Request... what) {
    auto promise = make_response_promise<ConversationInfoPtr>();
    const Result<session_actor> session = find(name);
    if (!session) {
        promise.deliver(to_caf(session.error()));
        return promise;
    }
    when_answered(
        request(*session, answer_within, std::move(what)...),
        [promise](const ConversationInfoPtr& info) mutable { promise.deliver(info); },
        [promise](const caf::error& error) mutable { promise.deliver(to_caf(from_caf(error, "the conversation"))); });
    return promise;
}

caf::typed_response_promise<ConversationInfoPtr> Router::create_info(const ConversationName& name,
                                                                     const Preamble& preamble) {
    const auto refused = [this](const Error& error) {
        auto promise = make_response_promise<ConversationInfoPtr>();
        promise.deliver(to_caf(error));
        return promise;
    };
    const size_t bytes = content_bytes(preamble), bytes_max = content_bytes_max(*options_.session.home);
    if (bytes > bytes_max) {  // which no turn could begin with
        return refused(make_error(ErrorCode::out_of_range,
                                  "the conversation's system text has " + std::to_string(bytes) + " bytes; at most " +
                                      std::to_string(bytes_max) + " can fit into its context"));
    }
    Conversation conversation(model_);
    conversation.preamble = preamble;
    if (const Result<session_actor> made = create(name, std::move(conversation)); !made) return refused(made.error());
    return pass_on(name, list_atom::value);
}

caf::typed_response_promise<ConversationListPtr> Router::list(const Tenant& tenant) {
    auto promise = make_response_promise<ConversationListPtr>();
    struct Gathered {
        caf::typed_response_promise<ConversationListPtr> promise;
        std::map<caf::actor_id, ConversationInfo, std::greater<>> all;  // CAF counts: a later session has a higher id
        size_t missing = 1;                                             // this function itself

        void one_less() {
            if (--missing > 0) return;
            auto list = std::make_shared<std::vector<ConversationInfo>>();
            for (auto& [session, info] : all) list->push_back(std::move(info));
            promise.deliver(ConversationListPtr(std::move(list)));
        }
    };
    auto gathered = std::make_shared<Gathered>();
    gathered->promise = promise;
    for (auto at = conversations_.lower_bound({tenant, ""}); at != conversations_.end() && at->first.tenant == tenant;
         ++at) {
        ++gathered->missing;
        when_answered(
            request(at->second, answer_within, brief_atom::value),
            [gathered, session = at->second.id()](const ConversationInfoPtr& info) {
                gathered->all.emplace(session, *info);
                gathered->one_less();
            },
            [gathered](const caf::error&) { gathered->one_less(); });
    }
    gathered->one_less();
    return promise;
}

caf::typed_response_promise<ConversationInfoPtr> Router::fork(const ConversationName& from,
                                                              const ConversationName& to) {
    auto promise = make_response_promise<ConversationInfoPtr>();
    const Result<session_actor> session = find(from);
    if (!session) {
        promise.deliver(to_caf(session.error()));
        return promise;
    }
    const auto failed = [promise](const caf::error& error) mutable {
        promise.deliver(to_caf(from_caf(error, "the conversation")));
    };
    when_answered(
        request(*session, answer_within, copy_atom::value),
        [=, this](const ConversationPtr& copy) mutable {
            const Result<session_actor> made = create(to, *copy);
            if (!made) {
                promise.deliver(to_caf(made.error()));
                return;
            }
            when_answered(
                request(*made, answer_within, list_atom::value),
                [promise](const ConversationInfoPtr& info) mutable { promise.deliver(info); }, failed);
        },
        failed);
    return promise;
}

}  // namespace rondo
