#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "actors/conversation_bytes.hpp"
#include "memory/store/kv_store.hpp"

namespace rondo {

/// What one tenant has in the store.
struct StoreOwner {
    std::optional<Tenant> tenant;  ///< none: only his conversations tell his name, and he has none
    int64_t conversations = 0;
    uint64_t bytes = 0;  ///< of KV
};

/// Who owned what when the store was opened. Immutable; any thread may look.
class StoreOwners {
public:
    StoreOwners() = default;
    StoreOwners(const KvStore& store, std::span<const ConversationHead> heads);

    /// All but these tenants, those with the most bytes first.
    std::vector<StoreOwner> others_than(std::span<const Tenant> tenants) const;

private:
    std::optional<StoreKeys> keys_;  // names of tenants are made with them
    std::map<StoreName, StoreOwner> owners_;
};

}  // namespace rondo
