// What a session does with its conversation apart from turns: it is read, kept, told of and changed.

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/session.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

constexpr auto read_within = std::chrono::seconds(10);

/// The methods that computed rounds, as far as what they compute is not exact.
std::vector<std::string> methods_of(const std::vector<Round>& rounds, const Runtime& runtime) {
    std::set<std::string> methods;
    for (const Round& round : rounds) {
        if (!round.figures) continue;
        const TurnAttention& attention = round.figures->attention;
        if (const Result<size_t> method = runtime.method(attention.method))
            methods.insert(space_of(runtime, {}, *method, attention.budget_tokens).method);
    }
    methods.erase(std::string());
    return {methods.begin(), methods.end()};
}

}  // namespace

/// What is asked for meanwhile waits.
void Session::read() {
    when_answered(
        request(keeper_, read_within, copy_atom::value, key_.name),
        [this](const ConversationBytesPtr& bytes) {
            Result<Conversation> kept = read_conversation(options_.runtime->model, *bytes, options_.runtime->tokenizer);
            if (kept) conversation_ = std::move(*kept);
            is_read(kept.status());
        },
        [this](const caf::error& error) { is_read(from_caf(error, "the conversation's store")); });
}

/// Without it nothing can be said in it: what waits is refused, and the conversation goes.
void Session::is_read(const Status& status) {
    is_there_ = status.is_ok();
    do_what_waited(status);
    if (is_there_) return start_next();
    keeper_ = nullptr;
    refuse_waiting(status.error());
    quit(to_caf(status.error()));
}

/// As it now stands it outlives the process, once it has begun. What the store has not come to is replaced in the slot;
/// but for a fork's beginning, of which the store must hear before rounds go.
void Session::keep(bool rounds_went) {
    if (!keeper_ || unbegun_) return;
    ConversationToKeep kept;
    kept.key = key_;
    kept.head = write_head({key_.name, key_.number, seconds_since_1970(), figures()});
    kept.body = write_conversation(conversation_, options_.runtime->tokenizer);
    kept.fork_of = std::exchange(fork_of_, {});
    if (rounds_went) kept.tokens_left = conversation_.known_tokens();
    if (kept.fork_of) {
        kept.ids = conversation_.history().ids;
        kept.methods = methods_of(conversation_.rounds(), *options_.runtime);
    }
    const KeepSlotPtr slot = kept.fork_of ? std::make_shared<KeepSlot>() : keeping_;
    if (slot->put(std::move(kept))) send(keeper_, keep_atom::value, slot);
}

CachedPromptPtr Session::cached_prompt() const {
    Conversation::Prompt known = conversation_.history();
    return std::make_shared<CachedPrompt>(CachedPrompt{key_, std::move(known.ids), std::move(known.round_ends)});
}

/// A conversation that has not been read has no KV in memory, so no tokens are put away.
caf::typed_response_promise<int64_t> Session::put_away() {
    auto answer = make_response_promise<int64_t>();
    const auto put = [this, answer](const Status& status) mutable {
        if (!status) {
            answer.deliver(to_caf(status.error()));
        } else if (!is_there_ || !stages_) {
            answer.deliver(int64_t{0});
        } else {
            answer.delegate(stages_->cache, away_atom::value, cached_prompt());
        }
    };
    if (const Status no_turn = check_no_turn(); no_turn) {
        do_or_wait(current_.has_value(), put);
    } else {
        answer.deliver(to_caf(no_turn.error()));
    }
    return answer;
}

/// Nothing of a conversation that was removed stays in memory, unless others have it too.
void Session::leave() {
    do_what_waited(make_error(ErrorCode::not_found, "the conversation was removed before it was read"));
    if (removed_ && is_there_ && stages_) send(stages_->cache, remove_atom::value, cached_prompt());
    quit();
}

ConversationInfoPtr Session::info() const {
    return std::make_shared<ConversationInfo>(
        ConversationInfo{key_.name.id, conversation_.title(), conversation_.preamble, conversation_.tokens(),
                         conversation_.rounds(), conversation_.bytes(), !check_no_turn().is_ok()});
}

ConversationFigures Session::figures() const {
    return is_there_ ? figures_of(conversation_) : options_.figures;
}

Result<ConversationInfoPtr> Session::changed_by(const std::function<Status(Conversation&)>& how) {
    RONDO_TRY(how(conversation_));
    ++key_.cuts;
    keep(true);
    return info();
}

}  // namespace rondo
