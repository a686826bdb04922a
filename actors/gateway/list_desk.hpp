#pragma once

#include <memory>
#include <optional>

#include "actors/fair_queue.hpp"
#include "actors/gateway/exchange.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/tenant_shares.hpp"

namespace rondo {

/// A part of a tenant's list that a client waits for.
struct ListJob {
    std::shared_ptr<Exchange> exchange;
    PageOf wanted;
};

using ListJobPtr = std::shared_ptr<const ListJob>;
using list_desk_actor = caf::typed_actor<caf::reacts_to<list_atom, ListJobPtr>, caf::reacts_to<pump_atom>>;

}  // namespace rondo

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ListJobPtr)

namespace rondo {

/// Answers lists one after the other, tenants in turn, so that of CAF's workers they take one at the most. While turns
/// are under way, and for a moment after, it rests between two lists, so that steps go first. Some wait, in places that
/// tenants share; more are refused.
class ListDesk : public list_desk_actor::base {
public:
    ListDesk(caf::actor_config& config, front_actor front, const Load& load, bool several_tenants)
        : list_desk_actor::base(config), front_(std::move(front)), load_(load), places_(waiting_max, several_tenants) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "list_desk"; }
    void on_exit() override;

private:
    static constexpr size_t waiting_max = 1024;

    void next();
    void done();

    front_actor front_;
    const Load& load_;  // the engine's, which outlives the gateway
    FairQueue<ListJobPtr> waiting_;
    TenantShares places_;  // of those
    uint64_t ids_ = 0;
    std::optional<caf::actor_clock::time_point> talked_at_;  // when a turn was last seen under way
    bool busy_ = false;                                      // asking or resting
};

}  // namespace rondo
