// The conversations that a router knows: which there are, who serves them, and which leave.

#include <algorithm>

#include "actors/router.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

// A machine that starts may not know the time yet, and nobody may leave because of that.
constexpr double clock_is_right_after = 600.0;

/// What was used when the machine did not know the time was used now.
double age_of(const ConversationHead& head) {
    constexpr double known_time = 1'577'836'800.0;  // 2020-01-01
    return head.used_at < known_time ? 0.0 : std::max(seconds_since_1970() - head.used_at, 0.0);
}

}  // namespace

session_actor Router::open(const ConversationKey& key, Conversation conversation, Session::Options options) {
    options.load = load_;
    const session_actor session =
        spawn<Session>(std::move(conversation), key, router_actor(this), stages_, std::move(options));
    monitor(session);
    return session;
}

/// The session of a conversation that is there. One that is only kept on a disk gets one now, which reads it.
session_actor Router::serving(const ConversationName& name) {
    const ConversationTable::Entry& known = *conversations_.find(name);
    if (known.session) return known.session;
    Session::Options options = options_.session;
    options.keeper = options_.store;
    options.is_kept = true;
    options.figures = known.figures;
    const session_actor session = open({name, known.number}, Conversation(model_), std::move(options));
    conversations_.serve(name, session);
    names_[session.id()] = name;
    return session;
}

/// Those that were kept are there, without a session each.
void Router::put_back_kept() {
    for (const ConversationHead& head : options_.kept)
        conversations_.put_back(head.name, head.number, head.figures, now() - age_of(head));
    count();
    if (options_.kept.empty()) return;
    ages_known_at_ = now() + clock_is_right_after;
    age_awaited_ = true;  // whoever leaves by age is looked for then
    delayed_send(this, timespan_of(clock_is_right_after) + std::chrono::milliseconds(1), age_atom::value);
}

/// Those that nobody has asked for since the start are as old as the clock says by now.
void Router::learn_ages() {
    for (const ConversationHead& head : std::exchange(options_.kept, {})) {
        const ConversationTable::Entry* const entry = conversations_.find(head.name);
        if (entry == nullptr || entry->number != head.number || entry->session) continue;
        if (entry->used_at <= ages_known_at_ - clock_is_right_after)  // not since the start
            conversations_.used(head.name, now() - age_of(head));
    }
}

Result<session_actor> Router::find(const ConversationName& name) {
    const ConversationTable::Entry* const found = conversations_.find(name);
    if (found == nullptr) return missing(name);
    conversations_.used(name, now());
    return serving(name);
}

/// Why there is none of this name.
Error Router::missing(const ConversationName& name) const {
    if (!options_.newer(name)) return conversations_.missing(name);
    return make_error(ErrorCode::unsupported,
                      "a newer version of the server wrote the conversation of that id, which this version neither "
                      "reads nor replaces; use another id");
}

/// Conversations leave until there is room for so much more; none does where that cannot be.
Status Router::make_room(const Tenant& tenant, ConversationTable::Totals more, const ConversationName* stays) {
    Result<std::vector<ConversationName>> leaving = conversations_.room_for(tenant, more, stays);
    if (!leaving) {
        Error error = leaving.error();
        const double latest = deadlines_.empty() ? 1.0 : deadlines_.begin()->first - now();
        error.retry_after_s = room_.own_end_s(tenant, turns_.size(), now(), latest);
        return error;
    }
    for (const ConversationName& name : *leaving) leave(name, ConversationTable::Left::room);
    return Status::ok();
}

void Router::leave(const ConversationName& name, ConversationTable::Left why) {
    if (why == ConversationTable::Left::age) ++load_->left_by_age;
    if (why == ConversationTable::Left::room) ++load_->left_for_room;
    const ConversationTable::Entry& entry = *conversations_.find(name);
    if (entry.session) send(entry.session, remove_atom::value);
    // Nothing of it stays on a disk.
    if (options_.store) caf::anon_send(options_.store, remove_atom::value, ConversationKey{name, entry.number}, false);
    forget(name, why);
}

/// Whether a conversation of this name can be begun.
Status Router::check_new(const ConversationName& name) const {
    if (name.id.empty()) return make_error(ErrorCode::invalid_argument, "the conversation's id must not be empty");
    RONDO_TRY(check_name(name));
    if (conversations_.find(name) != nullptr)
        return make_error(ErrorCode::invalid_argument, "there is a conversation of that id; the id must be another");
    return options_.newer(name) ? Status(missing(name)) : Status::ok();
}

Result<session_actor> Router::create(const ConversationName& name, Conversation conversation,
                                     Session::Options options) {
    RONDO_TRY(check_new(name));
    const ConversationFigures figures = figures_of(conversation);
    RONDO_TRY(make_room(name.tenant, {1, figures.bytes}, nullptr));
    options.keeper = options_.store;
    const bool begun_by_turn = options.begun_by_turn;
    const session_actor session =
        open({name, conversations_.next_number()}, std::move(conversation), std::move(options));
    conversations_.add(name, session, figures, now());
    if (begun_by_turn) conversations_.begun_by_turn(name);
    names_[session.id()] = name;
    count();
    watch_ages();
    return session;
}

/// One without a session has nothing in memory.
caf::result<int64_t> Router::put_away(const ConversationName& name) {
    if (!options_.store) {
        return to_caf(make_error(ErrorCode::invalid_argument,
                                 options_.session.store->wanted
                                     ? "nothing is put away: the store could not be opened, or has died"
                                     : "nothing is put away: memory.disk.path must be set"));
    }
    const ConversationTable::Entry* const found = conversations_.find(name);
    if (found == nullptr) return to_caf(missing(name));
    if (!found->session) return int64_t{0};
    return delegate(found->session, away_atom::value);
}

/// Whoever asked is answered when it is off the disk for certain.
caf::result<bool> Router::remove(const ConversationName& name) {
    const ConversationTable::Entry* const found = conversations_.find(name);
    const auto store_died = [] {
        return to_caf(make_error(ErrorCode::io,
                                 "the store has died: what it has of the conversation stays on the disk; "
                                 "start the process anew, and delete it then"));
    };
    if (found == nullptr && options_.newer(name)) return to_caf(missing(name));
    if (found == nullptr) return conversations_.is_unread(name) ? caf::result<bool>(store_died()) : false;
    const ConversationKey key{name, found->number};
    if (found->session) send(found->session, remove_atom::value);
    forget(name, ConversationTable::Left::deleted);
    if (key.number <= stored_until_) return store_died();
    if (!options_.store) return true;
    auto promise = make_response_promise<bool>();
    when_answered(
        request(options_.store, answers_within, remove_atom::value, key, true),
        [promise](bool) mutable { promise.deliver(true); },
        [promise](const caf::error& error) mutable {
            Error why = from_caf(error, "the store");
            why.message = "it is deleted, but not from the disk yet, which is tried again: " + why.message;
            promise.deliver(to_caf(why));
        });
    return promise;
}

void Router::forget(const ConversationName& name, ConversationTable::Left why) {
    const ConversationTable::Entry& entry = *conversations_.find(name);
    if (entry.session) names_.erase(entry.session.id());
    conversations_.remove(name, entry.number <= stored_until_ ? ConversationTable::Left::unread : why);
    count();
}

void Router::count() {
    load_->conversations = conversations_.totals().count;
    load_->conversation_bytes = conversations_.totals().bytes;
}

void Router::leave_by_age() {
    age_awaited_ = false;
    learn_ages();
    for (const ConversationName& name : conversations_.too_old(now())) leave(name, ConversationTable::Left::age);
    watch_ages();
}

/// One message is under way for the oldest; if it was used meanwhile, that finds out.
void Router::watch_ages() {
    if (age_awaited_) return;
    const std::optional<double> next = conversations_.next_too_old();
    if (!next) return;
    age_awaited_ = true;
    const caf::timespan wait = timespan_of(std::max(*next - now(), 0.0));
    delayed_send(this, wait + std::chrono::milliseconds(1), age_atom::value);
}

caf::result<ConversationPagePtr> Router::list(const PageOf& wanted) {
    Result<ConversationPage> page = conversations_.page(wanted);
    if (!page) return to_caf(page.error());
    return ConversationPagePtr(std::make_shared<ConversationPage>(std::move(*page)));
}

caf::typed_response_promise<ConversationInfoPtr> Router::fork(const ConversationName& from,
                                                              const ConversationName& to) {
    auto promise = make_response_promise<ConversationInfoPtr>();
    if (const Status is_new = check_new(to); !is_new) {  // before the copy, of which the store keeps more than one then
        promise.deliver(to_caf(is_new.error()));
        return promise;
    }
    const Result<session_actor> session = find(from);
    if (!session) {
        promise.deliver(to_caf(session.error()));
        return promise;
    }
    const auto failed = [promise](const caf::error& error) mutable {
        promise.deliver(to_caf(from_caf(error, "the conversation")));
    };
    when_answered(
        request(*session, answers_within, copy_atom::value),
        [=, this](const ConversationPtr& copy) mutable {
            Session::Options options = options_.session;
            options.fork_of = from;
            const Result<session_actor> made = create(to, *copy, std::move(options));
            if (!made) {
                promise.deliver(to_caf(made.error()));
                return;
            }
            when_answered(
                request(*made, answers_within, list_atom::value),
                [promise](const ConversationInfoPtr& info) mutable { promise.deliver(info); }, failed);
        },
        failed);
    return promise;
}

}  // namespace rondo
