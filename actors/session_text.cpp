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
    const AskPtr ask = waiting_.first();
    TurnText& text = waiting_.begin_text(options_.texts);
    const size_t bytes = text_bytes(*ask, conversation_);
    if (!ask->ids.empty() || options_.texts->is_at_once(bytes))
        return text.is_made(make_turn_safely(*ask, conversation_, options_.runtime, {}));
    TextQueue::Text job{ask->conversation.tenant, flow_of(*ask), ask->priority, bytes, {}};
    job.job = [session = session_actor(this), ask, conversation = std::make_shared<const Conversation>(conversation_),
               runtime = options_.runtime, stop = text.stop()] {
        if (stop.stop_requested()) return;
        const auto news =
            std::make_shared<NewTurnOf>(NewTurnOf{ask->id, make_turn_safely(*ask, *conversation, runtime, stop)});
        caf::anon_send(session, text_atom::value, news);
    };
    const Result<TextWorkers::Place> place = options_.texts->add(std::move(job));
    place ? text.waits(*place) : text.is_made(place.error());
}

void Session::prepared(const NewTurnPtr& news) {
    if (waiting_.text_is_made(news->turn, std::move(news->made))) start_next();
}

}  // namespace rondo
