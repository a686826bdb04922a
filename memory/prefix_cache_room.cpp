// What makes room in a prefix cache, and in which order.

#include <algorithm>
#include <functional>

#include "memory/prefix_cache.hpp"

namespace rondo {

namespace {

// So many blocks from the least recently used on are looked at for those without a claim.
constexpr size_t spared_visits_max = 4096;

}  // namespace

bool PrefixCache::only_here(const Node& node) const {
    return std::ranges::all_of(layer_groups, [&](LayerGroup group) {
        const KvLease& lease = node.leases[group];
        return lease.blocks().empty() || pool_.references(group, lease.blocks()[0]) == 1;
    });
}

bool PrefixCache::holds_up_others(const Node& node) const {
    for (const Node* above = node.parent; above->parent != nullptr; above = above->parent)
        if (only_here(*above)) return true;
    return false;
}

void PrefixCache::remove(Node* node) {
    by_use_.erase(node->place);
    if (const auto owner = by_owner_.find(node->owner); owner != by_owner_.end()) {
        owner->second.erase(node->owned);
        if (owner->second.empty()) by_owner_.erase(owner);
    }
    Node* const parent = node->parent;
    while (!node->claims.empty()) move_claim(*node->claims.back(), parent);
    Way& way = *node->way;
    nodes_.erase(nodes_.find(node->name));
    if (--parent->children == 0) parent->child_sizes = 0;
    leave(way);
}

/// Whether there will be so many free blocks when all that nobody else holds have gone. Asks the least recently used
/// first, so that mostly no more are looked at than will go.
bool PrefixCache::could_free(const BlockCounts& blocks, bool spares_claims) const {
    BlockCounts missing = blocks;
    for (const LayerGroup group : layer_groups) missing[group] -= static_cast<int64_t>(pool_.blocks_free(group));
    const auto any_missing = [&] {
        return std::ranges::any_of(missing.values, [](int64_t count) { return count > 0; });
    };
    size_t left = spares_claims ? spared_visits_max : by_use_.size();
    for (auto at = by_use_.end(); at != by_use_.begin() && left > 0 && any_missing(); --left) {
        const Node& node = **--at;
        if ((spares_claims && node.claimed > 0) || !only_here(node)) continue;
        for (const LayerGroup group : layer_groups) missing[group] -= std::ssize(node.leases[group].blocks());
    }
    return !any_missing();
}

void PrefixCache::evict(Node* node) {
    remove(node);
    ++evictions_;
}

/// Children stand behind their parents, so one pass from the end meets every leaf before what it hangs on.
template <class Enough>
void PrefixCache::evict_unclaimed(const Enough& enough) {
    for (auto at = by_use_.end(); at != by_use_.begin() && !enough();) {
        Node* const node = *--at;
        if (node->children > 0 || !node->claims.empty() || !only_here(*node)) continue;
        ++at;  // the node's place goes away
        evict(node);
    }
}

/// From the claim that is served last to the one that is served next, each from its end: so a few stay whole, where
/// taking a block of each would leave none. A block of several claims stays for the sake of the nearest.
template <class Enough>
void PrefixCache::evict_claimed(const Enough& enough) {
    std::vector<Claim*> by_place;
    for (auto& [id, claim] : claims_) by_place.push_back(&claim);
    std::ranges::sort(by_place, std::greater<>(), &Claim::place);
    for (Claim* const last : by_place) {
        while (last->at->parent != nullptr && !enough()) {
            Node* const node = last->at;
            const bool nearer =
                std::ranges::any_of(node->claims, [&](const Claim* claim) { return claim->place < last->place; });
            if (nearer || node->children > 0 || !only_here(*node)) break;
            evict(node);
        }
    }
}

/// A sequence that gave up its beginning holds leaves alone: they are forgotten, so that what they hang on can go.
template <class Enough>
void PrefixCache::forget_held_ends(const Enough& enough) {
    for (auto at = by_use_.end(); at != by_use_.begin() && !enough();) {
        Node* const node = *--at;
        if (node->children > 0) continue;
        const bool gives_room = only_here(*node);
        if (!gives_room && !holds_up_others(*node)) continue;
        ++at;  // the node's place goes away
        if (gives_room) {
            evict(node);
        } else {
            remove(node);
        }
    }
}

bool PrefixCache::make_room(const BlockCounts& blocks) {
    const auto enough = [&] {
        return std::ranges::all_of(layer_groups, [&](LayerGroup group) {
            return static_cast<int64_t>(pool_.blocks_free(group)) >= blocks[group];
        });
    };
    if (enough()) return true;
    if (!could_free(blocks, false)) return false;
    evict_unclaimed(enough);
    if (!enough()) evict_claimed(enough);
    if (!enough()) forget_held_ends(enough);
    return enough();
}

}  // namespace rondo
