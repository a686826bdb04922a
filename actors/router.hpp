#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "actors/ask.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/session.hpp"
#include "actors/tenant_shares.hpp"

namespace rondo {

/// Knows every conversation and every turn under way; lets no more in than can be served, and watches deadlines.
class Router : public router_actor::base {
public:
    struct Options {
        Session::Options session;
        size_t turns_max = 288;  ///< under way or waiting
        size_t conversations_max = 10'000;
        bool several_tenants = false;  ///< who share both
    };
    Router(caf::actor_config& config, std::shared_ptr<Load> load, const Options& options)
        : router_actor::base(config),
          model_(options.session.home->model),
          load_(std::move(load)),
          options_(options),
          turn_shares_(options.turns_max, options.several_tenants),
          conversation_shares_(options.conversations_max, options.several_tenants) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "router"; }
    void on_exit() override;

private:
    struct UnderWay {
        session_actor session;
        Tenant tenant;
        double deadline = 0.0;
    };

    void ask(const AskPtr& ask);
    Status let_in(const Ask& asked);
    void serve_by(const StagesPtr& stages);
    void pause();
    template <class News>
    void tell_sessions(const News& news);
    void refuse(const AskPtr& ask, Error error);
    session_actor open(const ConversationName& name, Conversation conversation, bool ends_with_turn);
    Result<session_actor> find(const ConversationName& name) const;
    Result<session_actor> create(const ConversationName& name, Conversation conversation);
    void over(TurnId id);
    void forget(std::map<ConversationName, session_actor>::iterator conversation);
    void expire();
    void watch_deadlines();
    void down(const caf::down_msg& message);
    void withdraw(TurnId id);
    /// What a conversation answers to this request, or that there is none.
    template <class... Request>
    caf::typed_response_promise<ConversationInfoPtr> pass_on(const ConversationName& name, Request... request);
    caf::typed_response_promise<ConversationInfoPtr> create_info(const ConversationName& name,
                                                                 const Preamble& preamble);
    caf::typed_response_promise<ConversationListPtr> list(const Tenant& tenant);
    caf::typed_response_promise<ConversationInfoPtr> fork(const ConversationName& from, const ConversationName& to);
    double now() { return std::chrono::duration<double>(clock().now().time_since_epoch()).count(); }

    const Model& model_;  // options_ keep it
    std::shared_ptr<Load> load_;
    const Options options_;
    TenantShares turn_shares_, conversation_shares_;
    StagesPtr stages_;  // none before the first ones, while new ones are awaited, and after the last ones
    std::map<ConversationName, session_actor> conversations_;
    std::unordered_map<caf::actor_id, ConversationName> names_;  // of those, by their session
    std::unordered_map<TurnId, UnderWay> turns_;
    std::set<std::pair<double, TurnId>> deadlines_;
    double wake_at_ = 0.0;  // when expire comes next; 0: not at all
};

}  // namespace rondo
