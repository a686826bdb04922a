#pragma once

#include <string>
#include <vector>

#include "actors/gateway/bodies/api_keys.hpp"
#include "actors/store_owners.hpp"

namespace rondo {

/// Lines for the operator: whose conversations and KV the store has that no API key leads to. One for each of those
/// with the most, and one that sums up the others.
std::vector<std::string> left_behind(const StoreOwners& owners, const ApiKeys& keys);
/// The same of tenants whom no key leads to, those with the most first.
std::vector<std::string> left_behind(const std::vector<StoreOwner>& owners);

}  // namespace rondo
