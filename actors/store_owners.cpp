#include "actors/store_owners.hpp"

#include <algorithm>
#include <tuple>

namespace rondo {

StoreOwners::StoreOwners(const KvStore& store, std::span<const ConversationHead> heads) : keys_(store.keys()) {
    for (const ConversationHead& head : heads) {
        StoreOwner& owner = owners_[store.tenant_name(head.name.tenant)];
        owner.tenant = head.name.tenant;
        ++owner.conversations;
    }
    store.index().each([this](const StoredRecord& record) { owners_[record.tenant].bytes += record.place.bytes; });
}

std::vector<StoreOwner> StoreOwners::others_than(std::span<const Tenant> tenants) const {
    std::map<StoreName, StoreOwner> left = owners_;
    for (const Tenant& tenant : tenants) left.erase(KvStore::tenant_name(keys_, tenant));
    std::vector<StoreOwner> others;
    for (auto& [name, owner] : left) others.push_back(std::move(owner));
    std::ranges::stable_sort(others, [](const StoreOwner& a, const StoreOwner& b) {
        return std::tie(a.bytes, a.conversations) > std::tie(b.bytes, b.conversations);
    });
    return others;
}

}  // namespace rondo
