#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/ask.hpp"
#include "actors/conversation.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/make_turn.hpp"
#include "actors/metrics.hpp"
#include "actors/offered_turn.hpp"
#include "actors/stages.hpp"
#include "actors/store_figures.hpp"
#include "actors/timespan.hpp"
#include "actors/turn_flow.hpp"
#include "actors/turn_record.hpp"
#include "actors/waiting_turns.hpp"

namespace rondo {

/// A session as it sends to itself: whether the store has taken the turn that was offered as this number.
using session_itself_actor = session_actor::extend<caf::reacts_to<give_up_atom, uint64_t>>;

/// The shell around one conversation and the flow of its turn.
class Session : public session_itself_actor::base {
public:
    struct Options {
        RuntimePtr runtime;
        std::shared_ptr<Metrics> metrics;
        std::shared_ptr<Load> load;
        std::shared_ptr<TextWorkers> texts;
        std::shared_ptr<StoreFigures> store = std::make_shared<StoreFigures>();
        size_t waiting_max = 8;            ///< turns behind the one under way
        bool ends_with_turn = false;       ///< of a client who keeps the history himself
        store_actor keeper = {};           ///< that keeps the conversation; none: it ends with the process
        bool is_kept = false;              ///< it has to be read from there first
        ConversationFigures figures = {};  ///< that a list tells of one that has not been read yet
        std::optional<ConversationName> fork_of = {};
        bool begun_by_turn = false;  ///< and not before: a turn that goes on needs one that became a round
        double taken_within_s = OfferedTurn::taken_within_s;  ///< by the store, or the prompt is computed
    };
    /// Without stages turns wait until the router tells of some.
    Session(caf::actor_config& config, Conversation conversation, ConversationKey key, router_actor router,
            StagesPtr stages, const Options& options)
        : session_itself_actor::base(config),
          options_(options),
          conversation_(std::move(conversation)),
          key_(std::move(key)),
          keeper_(options.keeper),
          is_there_(!options.is_kept),
          fork_of_(options.fork_of),
          router_(std::move(router)),
          stages_(std::move(stages)),
          ends_with_turn_(options.ends_with_turn),
          unbegun_(options.begun_by_turn) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "session"; }
    void on_exit() override;

private:
    struct UnderWay;
    bool is_current(TurnId id) const;
    void ask(const AskPtr& ask);
    void serve_by(const StagesPtr& stages);
    void start_next();
    void prepare_next();
    void prepared(const NewTurnPtr& news);
    void begin_next();
    void happen(TurnFlow::Event event);
    void act(TurnFlow::Action action);
    void keep_kv();
    void dispatch(TurnStage stage);
    void replied(StageReply reply);
    void let_in();
    void restore();
    void offer(TurnPtr turn, caf::timespan timeout, std::function<void(const StageReply&)> answered,
               std::function<void(const caf::error&)> failed);
    void look_at_offer_in(double seconds, uint64_t number);
    void look_at_offer(uint64_t number);
    void is_back(TurnPtr turn);
    void restored();
    void give(TurnDelta delta, bool last = false);
    void end(TurnOutcome outcome, Error error = {});
    void end_done();
    void tell_end(TurnEnd end);
    void remember();
    void tell_over();
    void let_go();
    void withdraw();
    void stop(TurnId id, TurnFlow::Event event);
    void down(const caf::down_msg& message);
    void refuse(const AskPtr& ask, Error error);
    void refuse_waiting(const Error& error);
    void has_heard(const listener_actor& listener, const UnderWay* other);
    ConversationInfoPtr info() const;
    ConversationFigures figures() const;
    caf::typed_response_promise<ConversationInfoPtr> change(std::function<Status(Conversation&)> how);
    Result<ConversationInfoPtr> changed_by(const std::function<Status(Conversation&)>& how);
    void read();
    void is_read(const Status& status);
    template <class Answer>
    caf::typed_response_promise<Answer> answer_when_there(std::function<Result<Answer>()> answer);
    void do_or_wait(bool waits, std::function<void(const Status&)> what);
    void do_what_waited(const Status& status);
    Status check_no_turn() const;
    bool drains() const { return current_ && current_->flow.state() == TurnFlow::State::draining; }
    void keep(bool rounds_went = false);
    CachedPromptPtr cached_prompt() const;
    caf::typed_response_promise<int64_t> put_away();
    void leave();
    double now() { return seconds_of(clock().now()); }

    struct UnderWay {
        AskPtr ask;
        StagesPtr stages;  // that serve it
        Conversation::Prompt prompt;
        TurnPtr turn;  // while no stage holds it
        TurnRecord record;
        TurnFlow flow = {};
        std::optional<Running> running = {};  // while it has KV
        Error error = {};                     // of the stage that refused
        std::optional<TurnEnd> end = {};      // to be told
        bool over_told = false;               // the router knows
    };

    Options options_;
    Conversation conversation_;
    ConversationKey key_;
    store_actor keeper_;
    KeepSlotPtr keeping_ = std::make_shared<KeepSlot>();  // for the keeper
    bool is_there_;                                       // else it is being read
    // What waits for that, or until no stage has a turn any more whose user has heard its end.
    std::vector<std::function<void(const Status&)>> when_ready_;
    std::optional<ConversationName> fork_of_;  // until that is kept
    router_actor router_;
    StagesPtr stages_;  // that the next turn starts with; none: it waits for some
    bool ends_with_turn_;
    bool unbegun_;  // no turn has become a round yet, and the first one made it
    bool removed_ = false;

    WaitingTurns waiting_;
    std::optional<UnderWay> current_;
    OfferedTurn offered_;  // to the store; or the one before it
    uint64_t asked_ = 0;   // counts what stages were asked: older replies are no news
};

}  // namespace rondo
