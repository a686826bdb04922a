#include "actors/router.hpp"

#include <algorithm>

#include "actors/make_turn.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

Router::behavior_type Router::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) { down(message); });
    if (options_.store) monitor(options_.store);
    put_back_kept();
    return {
        [this](ask_atom, const AskPtr& asked) { return ask(asked); },
        [this](cancel_atom, TurnId id) {
            if (const auto turn = turns_.find(id); turn != turns_.end())
                send(turn->second.session, cancel_atom::value, id);
        },
        [this](create_atom, const ConversationName& name, const Preamble& preamble) {
            return create_info(name, preamble);
        },
        [this](list_atom, const PageOf& wanted) { return list(wanted); },
        [this](list_atom, const ConversationName& name) { return pass_on(name, list_atom::value); },
        [this](rewind_atom, const ConversationName& name, int64_t round) {
            return pass_on(name, rewind_atom::value, round);
        },
        [this](drop_atom, const ConversationName& name, const RoundList& rounds) {
            return pass_on(name, drop_atom::value, rounds);
        },
        [this](title_atom, const ConversationName& name, const std::string& title) {
            return pass_on(name, title_atom::value, title);
        },
        [this](fork_atom, const ConversationName& from, const ConversationName& to) { return fork(from, to); },
        [this](remove_atom, const ConversationName& name) { return remove(name); },
        [this](away_atom, const ConversationName& name) { return put_away(name); },
        [this](over_atom, TurnId id, const ConversationFigures& figures) { over(id, &figures); },
        [this](expire_atom) { expire(); },
        [this](age_atom) { leave_by_age(); },
        [this](const StagesPtr& stages) { serve_by(stages); },
        [this](pause_atom) { pause(); },
        [this](drain_atom) -> caf::result<bool> {
            if (stages_) return delegate(stages_->cache, drain_atom::value);
            if (options_.store) return delegate(options_.store, drain_atom::value);
            return true;
        },
    };
}

/// A dead actor may be held for as long as a timer runs, which may be days; the model may not.
void Router::on_exit() {
    conversations_.for_each([this](const ConversationName&, const ConversationTable::Entry& entry) {
        if (entry.session) send_exit(entry.session, caf::exit_reason::user_shutdown);
    });
    for (const auto& [id, turn] : turns_) {
        send_exit(turn.session, caf::exit_reason::user_shutdown);
        withdraw(id);
    }
    conversations_ = ConversationTable({});
    turns_.clear();
    load_->turns = 0;
    count();
    stages_.reset();
    options_ = {};
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
    const Tenant& tenant = asked.conversation.tenant;
    const size_t wanted = asked.places ? asked.places->turns() : 1, taken = turns_.size() + load_->places_held;
    RONDO_TRY(room_.find(tenant, wanted, taken, now(), asked.deadline_seconds));
    if (asked.places) {
        asked.places->hold(load_, now() + asked.deadline_seconds);
        room_.hold(tenant, asked.places);
    }
    return Status::ok();
}

/// Gives the turn an id, or checks the one it has: events and ends are told by it.
Result<TurnId> Router::number(AskPtr& asked) {
    if (asked->id == 0) {
        auto numbered = std::make_shared<Ask>(*asked);  // the asker's own may be sent again
        numbered->id = ++*last_turn_;
        asked = std::move(numbered);
    } else if (asked->id > *last_turn_ || turns_.contains(asked->id)) {
        return make_error(ErrorCode::invalid_argument,
                          "the turn's id must be 0 or one that Engine::new_turn_id gave for it alone");
    }
    return asked->id;
}

/// Whoever listens hears whatever becomes of the turn. Where nobody does, whoever asked is told, as he asked: by an
/// error, or by the end of a turn if he did not ask for an answer.
caf::result<TurnId> Router::ask(AskPtr asked) {
    const bool is_request = current_mailbox_element()->mid.is_request();
    if (!asked || !asked->listener) {
        Error error = make_error(ErrorCode::invalid_argument, "a turn needs an Ask with a listener");
        if (is_request) return to_caf(error);
        TurnEnd end;
        end.error = std::move(error);
        if (const auto sender = caf::actor_cast<caf::actor>(current_sender())) caf::anon_send(sender, std::move(end));
        return caf::delegated<TurnId>();
    }
    const Result<TurnId> id = number(asked);
    const Status checked = id ? asked->check() : id.status();
    if (checked) {
        admit(asked);
    } else {
        refuse(asked, checked.error());
    }
    if (!is_request) return caf::delegated<TurnId>();  // a plain message has no answer
    return asked->id;
}

void Router::admit(const AskPtr& asked) {
    if (load_->gave_up) return refuse(asked, make_error(ErrorCode::internal, "the pipeline has given up"));
    if (const Status status = check_ask(*asked, *options_.session.runtime); !status)
        return refuse(asked, status.error());
    if (const Status status = let_in(*asked); !status) return refuse(asked, status.error());
    Result<session_actor> session = session_for(*asked);
    if (!session) return refuse(asked, session.error());
    const ConversationName& name = asked->conversation;
    if (!name.id.empty()) conversations_.begin_turn(name, now());
    const double deadline = asked->places ? asked->places->deadline() : now() + asked->deadline_seconds;
    if (turns_.empty()) load_->busy_since_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    turns_[asked->id] = {*session, name, deadline};
    room_.take(name.tenant);
    load_->turns = turns_.size();
    deadlines_.emplace(deadline, asked->id);
    watch_deadlines();
    send(asked->listener, TurnBegun{asked->id, caf::actor_cast<caf::actor>(*session)});
    send(*session, ask_atom::value, asked);
}

Result<session_actor> Router::session_for(const Ask& asked) {
    const ConversationName& name = asked.conversation;
    if (name.id.empty()) {
        Session::Options options = options_.session;
        options.ends_with_turn = true;
        return open({name, 0}, Conversation(model_), std::move(options));
    }
    const ConversationTable::Entry* const known = conversations_.find(name);
    if (known == nullptr && (asked.goes_on || asked.warms)) return missing(name);
    if (known == nullptr) {
        RONDO_TRY(check_further_members(asked.messages));  // nothing leaves for a turn that cannot be
        Session::Options options = options_.session;
        options.begun_by_turn = asked.ids.empty();  // token ids become no rounds
        return create(name, Conversation(model_), std::move(options));
    }
    RONDO_TRY(make_room(name.tenant, {0, content_bytes(asked.messages)}, &name));
    return serving(name);
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
    conversations_.for_each([&](const ConversationName&, const ConversationTable::Entry& entry) {
        if (entry.session) send(entry.session, news);
    });
    // Those without a name: of clients who keep their history, and of conversations that were removed.
    for (const auto& [id, turn] : turns_)
        if (!names_.contains(turn.session.id())) send(turn.session, news);
}

/// `figures` of its conversation, when its session tells of it.
void Router::over(TurnId id, const ConversationFigures* figures) {
    const auto turn = turns_.find(id);
    if (turn == turns_.end()) return;
    const ConversationName& name = turn->second.conversation;
    room_.end(name.tenant, now());
    deadlines_.erase({turn->second.deadline, id});
    // It may have been removed meanwhile, and another begun under its name.
    const ConversationTable::Entry* const entry = conversations_.find(name);
    if (entry != nullptr && entry->session == turn->second.session) {
        conversations_.end_turn(name, now());
        if (figures != nullptr) conversations_.grew(name, *figures);
        if (entry->unbegun && entry->turns == 0) leave(name, ConversationTable::Left::never_begun);
        count();
        watch_ages();
    }
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
    const caf::timespan wait = timespan_of(std::max(first - now(), 0.0));
    delayed_send(this, wait + std::chrono::milliseconds(1), expire_atom::value);
}

/// A conversation that is kept on a disk is read from there when it is asked for again.
void Router::down(const caf::down_msg& message) {
    if (options_.store && options_.store.address() == message.source) return store_down();
    std::vector<TurnId> gone;
    for (const auto& [id, turn] : turns_)
        if (turn.session.address() == message.source) gone.push_back(id);
    for (const TurnId id : gone) {
        withdraw(id);
        over(id, nullptr);
    }
    const auto found = names_.find(message.source.id());
    if (found == names_.end()) return;
    const ConversationName name = found->second;
    const bool is_kept = options_.store && from_caf(message.reason, "the session").code != ErrorCode::not_found;
    if (!is_kept) return forget(name, ConversationTable::Left::failed);
    names_.erase(found);
    conversations_.serve(name, session_actor());
}

/// Conversations that nobody has asked for since the start cannot be read any more; the next start finds them. All
/// others go on without a store.
void Router::store_down() {
    options_.store = nullptr;
    stored_until_ = conversations_.next_number() - 1;
    std::vector<ConversationName> unread;
    conversations_.for_each([&](const ConversationName& name, const ConversationTable::Entry& entry) {
        if (!entry.session) unread.push_back(name);
    });
    for (const ConversationName& name : unread) forget(name, ConversationTable::Left::unread);
}

/// A session that died cannot take its turn back from the stage that holds it.
void Router::withdraw(TurnId id) {
    if (!stages_) return;
    stages_->each([this, id](const auto& stage) { send(stage, withdraw_atom::value, id); });
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
        request(*session, answers_within, std::move(what)...),
        [=, this, asked = *session](const ConversationInfoPtr& info) mutable {
            const ConversationTable::Entry* const entry = conversations_.find(name);
            if (entry != nullptr && entry->session == asked) {
                conversations_.grew(name, {info->tokens, std::ssize(info->rounds), info->bytes, info->title});
                count();
            }
            promise.deliver(info);
        },
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
    if (const Status roles = check_roles(preamble); !roles) return refused(roles.error());
    const size_t bytes = content_bytes(preamble), bytes_max = content_bytes_max(*options_.session.runtime);
    if (bytes > bytes_max) {  // which no turn could begin with
        return refused(make_error(ErrorCode::context_full,
                                  "the conversation's system text has " + std::to_string(bytes) + " bytes; at most " +
                                      std::to_string(bytes_max) + " can fit into its context"));
    }
    if (const Status texts = check_texts(preamble); !texts) return refused(texts.error());
    if (const Status members = check_further_members(preamble); !members) return refused(members.error());
    Conversation conversation(model_);
    conversation.preamble = preamble;
    if (const Result<session_actor> made = create(name, std::move(conversation), options_.session); !made)
        return refused(made.error());
    return pass_on(name, list_atom::value);
}

}  // namespace rondo
