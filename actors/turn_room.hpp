#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "actors/places.hpp"
#include "actors/tenant_shares.hpp"
#include "actors/turn_pace.hpp"
#include "config/result.hpp"

namespace rondo {

/// Room for turns under way or waiting: whether a tenant finds some, and when whoever finds none may ask again. What
/// requests hold for turns to come is their tenants'. The router's alone.
class TurnRoom {
public:
    TurnRoom(size_t turns_max, bool several_tenants) : turns_max_(turns_max), shares_(turns_max, several_tenants) {}

    /// Room for so many turns of one request, where anybody's turns take or hold `taken` places. An error says when to
    /// ask again: in at most `latest_s`.
    Status find(const Tenant& tenant, size_t wanted, size_t taken, double now, double latest_s) const {
        if (wanted > turns_max_) {
            return make_error(ErrorCode::out_of_range, std::to_string(wanted) + " answers, must be at most " +
                                                           std::to_string(turns_max_) + " here");
        }
        const size_t promised = held_places_.of(tenant), own = shares_.held(tenant) + promised;
        if (shares_.has_room(tenant, wanted, taken, promised)) return Status::ok();
        Error error = make_error(ErrorCode::overloaded, std::to_string(taken) + " turns are under way or waiting, " +
                                                            std::to_string(own) + " of them this tenant's; ask later");
        // Where others hold as much, anybody's end gives room; who holds the most waits for his own.
        const double others = own == 0 ? 1.0 : static_cast<double>(taken) / static_cast<double>(own);
        error.retry_after_s = pace_.expected_s(now, static_cast<double>(wanted) * others, latest_s);
        return error;
    }
    /// Seconds until one of the tenant's own turns may have ended, at most `latest_s`, while so many of anybody are
    /// under way or waiting.
    double own_end_s(const Tenant& tenant, size_t turns, double now, double latest_s) const {
        const double own = static_cast<double>(std::max<size_t>(shares_.held(tenant), 1));
        return pace_.expected_s(now, static_cast<double>(turns) / own, latest_s);
    }

    void take(const Tenant& tenant) { shares_.take(tenant); }
    /// One of the tenant's turns has ended.
    void end(const Tenant& tenant, double now) {
        shares_.give_back(tenant);
        pace_.ended(now);
    }
    /// What `places` hold for turns to come is the tenant's.
    void hold(const Tenant& tenant, std::weak_ptr<const Places> places) { held_places_.add(tenant, std::move(places)); }

private:
    const size_t turns_max_;
    TenantShares shares_;
    HeldPlaces held_places_;
    TurnPace pace_;
};

}  // namespace rondo
