// A session's next turn becomes a text, and that ids, apart from its actor.

#include <exception>
#include <utility>

#include "actors/make_turn.hpp"
#include "actors/session.hpp"

namespace rondo {

namespace {

/// make_turn, where what is thrown on the way is an error: it must end neither the actor nor a thread for texts.
Result<NewTurn> make_turn_safely(const Ask& ask, const Conversation& conversation, const RuntimePtr& runtime,
                                 const std::stop_token& stop) {
    try {
        return make_turn(ask, conversation, runtime, stop);
    } catch (const std::exception& error) {
        return make_error(ErrorCode::internal, std::string("the turn's text could not be rendered: ") + error.what());
    }
}

}  // namespace

/// What was asked as ids is no text, and a few words take less than the way to another thread and back.
void Session::prepare_next() {
    const AskPtr ask = waiting_.front().first;
    text_.emplace();
    text_->turn = ask->id;
    const size_t bytes = text_bytes(*ask, conversation_);
    if (!ask->ids.empty() || options_.texts->is_at_once(bytes)) {
        text_->made = make_turn_safely(*ask, conversation_, options_.runtime, {});
        return;
    }
    TextQueue::Text text{ask->conversation.tenant, flow_of(*ask), ask->priority, bytes, {}};
    text.job = [session = session_actor(this), ask, conversation = std::make_shared<const Conversation>(conversation_),
                runtime = options_.runtime, stop = text_->stop.get_token()] {
        if (stop.stop_requested()) return;
        const auto news =
            std::make_shared<NewTurnOf>(NewTurnOf{ask->id, make_turn_safely(*ask, *conversation, runtime, stop)});
        caf::anon_send(session, text_atom::value, news);
    };
    const Result<TextWorkers::Place> place = options_.texts->add(std::move(text));
    if (place) {
        text_->place = *place;
    } else {
        text_->made = place.error();
    }
}

void Session::prepared(const NewTurnPtr& news) {
    if (!text_ || text_->turn != news->turn) return;  // nobody wants it any more
    text_->made = std::move(news->made);
    start_next();
}

/// Whoever is at it hears of it soon.
void Session::drop_text() {
    if (!text_) return;
    text_->stop.request_stop();
    if (!text_->made) options_.texts->withdraw(text_->place);
    text_.reset();
}

}  // namespace rondo
