#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "actors/ask.hpp"
#include "actors/conversation_table.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/session.hpp"
#include "actors/timespan.hpp"
#include "actors/turn_room.hpp"

namespace rondo {

/// Knows every conversation and every turn under way; lets no more in than can be served, and watches deadlines and
/// ages.
class Router : public router_actor::base {
public:
    struct Options {
        Session::Options session;
        size_t turns_max = 288;  ///< under way or waiting
        ConversationTable::Limits conversations;
        bool several_tenants = false;             ///< who share both
        std::vector<ConversationHead> kept = {};  ///< on a disk, since before the start
        store_actor store = {};                   ///< that keeps them; none: they end with the process
        /// On its disk a newer version has a conversation of that name: it is not there, and none is begun.
        std::function<bool(const ConversationName&)> newer = [](const ConversationName&) { return false; };
    };
    /// `last_turn` counts the ids that were given to turns.
    Router(caf::actor_config& config, std::shared_ptr<Load> load, std::shared_ptr<std::atomic<TurnId>> last_turn,
           const Options& options)
        : router_actor::base(config),
          model_(options.session.runtime->model),
          load_(std::move(load)),
          last_turn_(std::move(last_turn)),
          options_(options),
          room_(options.turns_max, options.several_tenants),
          conversations_(options.conversations) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "router"; }
    void on_exit() override;

private:
    struct UnderWay {
        session_actor session;
        ConversationName conversation;
        double deadline = 0.0;
    };

    caf::result<TurnId> ask(AskPtr ask);
    Result<TurnId> number(AskPtr& ask);
    void admit(const AskPtr& ask);
    Status let_in(const Ask& asked);
    Result<session_actor> session_for(const Ask& asked);
    void serve_by(const StagesPtr& stages);
    void pause();
    template <class News>
    void tell_sessions(const News& news);
    void refuse(const AskPtr& ask, Error error);
    session_actor open(const ConversationKey& key, Conversation conversation, Session::Options options);
    session_actor serving(const ConversationName& name);
    void put_back_kept();
    void learn_ages();
    Status check_new(const ConversationName& name) const;
    Status make_room(const Tenant& tenant, ConversationTable::Totals more, const ConversationName* stays);
    void leave(const ConversationName& name, ConversationTable::Left why);
    Result<session_actor> find(const ConversationName& name);
    Error missing(const ConversationName& name) const;
    Result<session_actor> create(const ConversationName& name, Conversation conversation, Session::Options options);
    void over(TurnId id, const ConversationFigures* figures);
    caf::result<int64_t> put_away(const ConversationName& name);
    caf::result<bool> remove(const ConversationName& name);
    void forget(const ConversationName& name, ConversationTable::Left why);
    void count();
    void expire();
    void watch_deadlines();
    void leave_by_age();
    void watch_ages();
    void down(const caf::down_msg& message);
    void store_down();
    void withdraw(TurnId id);
    /// What a conversation answers to this request, or that there is none.
    template <class... Request>
    caf::typed_response_promise<ConversationInfoPtr> pass_on(const ConversationName& name, Request... request);
    caf::typed_response_promise<ConversationInfoPtr> create_info(const ConversationName& name,
                                                                 const Preamble& preamble);
    caf::result<ConversationPagePtr> list(const PageOf& wanted);
    caf::typed_response_promise<ConversationInfoPtr> fork(const ConversationName& from, const ConversationName& to);
    double now() { return seconds_of(clock().now()); }

    const Model& model_;  // options_ keep it, until the end
    std::shared_ptr<Load> load_;
    std::shared_ptr<std::atomic<TurnId>> last_turn_;
    Options options_;
    TurnRoom room_;
    StagesPtr stages_;  // none before the first ones, while new ones are awaited, and after the last ones
    ConversationTable conversations_;
    std::unordered_map<caf::actor_id, ConversationName> names_;  // of those, by their session
    std::unordered_map<TurnId, UnderWay> turns_;
    std::set<std::pair<double, TurnId>> deadlines_;
    double wake_at_ = 0.0;  // when expire comes next; 0: not at all
    bool age_awaited_ = false;
    double ages_known_at_ = 0.0;  // before that nobody leaves by age
    uint64_t stored_until_ = 0;   // number of the last conversation that a store which died may have
};

}  // namespace rondo
