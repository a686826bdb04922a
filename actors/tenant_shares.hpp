#pragma once

#include <cstddef>
#include <map>

#include "actors/messages.hpp"

namespace rondo {

/// Places that tenants share, so that none can take them all from the others. Whoever holds some may take more only
/// while he holds less than four times what is free. Alone he gets four fifths; a tenant who comes late finds room.
class TenantShares {
public:
    /// Of a server without tenants anybody may take all.
    TenantShares(size_t places, bool several_tenants) : places_(places), several_tenants_(several_tenants) {}

    /// Room for this many more, where so many are taken by anybody. Several must find room as if they came one after
    /// the other, but for those of a tenant who holds none. `promised` places are the tenant's beside those that he has
    /// taken here.
    bool has_room(const Tenant& tenant, size_t wanted, size_t taken, size_t promised = 0) const {
        if (taken + wanted > places_) return false;
        const size_t own = held(tenant) + promised;
        if (!several_tenants_ || own == 0) return true;
        const size_t before_last = wanted - 1;
        return own + before_last < 4 * (places_ - taken - before_last);
    }
    void take(const Tenant& tenant, size_t count = 1) { held_[tenant] += count; }
    void give_back(const Tenant& tenant, size_t count = 1) {
        const auto found = held_.find(tenant);
        if ((found->second -= count) == 0) held_.erase(found);
    }
    size_t held(const Tenant& tenant) const {
        const auto found = held_.find(tenant);
        return found == held_.end() ? 0 : found->second;
    }

private:
    const size_t places_;
    const bool several_tenants_;
    std::map<Tenant, size_t> held_;  // none is 0
};

}  // namespace rondo
