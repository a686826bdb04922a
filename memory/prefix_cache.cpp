#include "memory/prefix_cache.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <vector>

namespace rondo {

namespace {

constexpr LayerGroup groups[] = {LayerGroup::lower, LayerGroup::upper};
// Where the same tokens were cut into rounds differently there are several ways down; more than this many are not
// tried.
constexpr int visits_max = 1 << 16;
// So many blocks from the least recently used on are looked at for those without a claim.
constexpr size_t spared_visits_max = 4096;
// Of claims that nobody has put in order, after all that somebody has.
constexpr uint64_t unordered_places = uint64_t{1} << 32;

}  // namespace

PrefixCache::PrefixCache(KvPool& pool) : pool_(pool) {}
PrefixCache::~PrefixCache() = default;

size_t PrefixCache::Hash::operator()(const Key& key) const {
    auto hash = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(key.parent)) * 0x9E3779B97F4A7C15U;
    for (int32_t i = 0; i < key.size; ++i) {
        hash = (hash ^ static_cast<uint32_t>(key.ids[static_cast<size_t>(i)])) * 0xFF51AFD7ED558CCDU;
        hash ^= hash >> 32;
    }
    return hash;
}

PrefixCache::Node* PrefixCache::root_of(std::string_view space) {
    std::unique_ptr<Node>& root = roots_[std::string(space)];
    if (root == nullptr) root = std::make_unique<Node>();
    return root.get();
}

PrefixCache::Key PrefixCache::key_of(const Node* parent, std::span<const int32_t> ids) {
    Key key{parent, static_cast<int32_t>(ids.size()), {}};
    std::copy(ids.begin(), ids.end(), key.ids.begin());
    return key;
}

PrefixCache::Node* PrefixCache::child(const Node* node, std::span<const int32_t> ids, int32_t size) const {
    if ((node->child_sizes >> size & 1U) == 0 || ids.size() < static_cast<size_t>(size)) return nullptr;
    const auto found = nodes_.find(key_of(node, ids.first(static_cast<size_t>(size))));
    return found == nodes_.end() ? nullptr : found->second.get();
}

/// Every way down that spells `ids`, full blocks first; the node that is reached last in terms of tokens.
PrefixCache::Node* PrefixCache::deepest(Node* root, std::span<const int32_t> ids) const {
    Node* best = root;
    std::vector<Node*> open{root};
    for (int visits = 0; !open.empty() && visits < visits_max; ++visits) {
        Node* const node = open.back();
        open.pop_back();
        if (node->depth > best->depth) best = node;
        if (best->depth == static_cast<int64_t>(ids.size())) break;
        const auto rest = ids.subspan(static_cast<size_t>(node->depth));
        for (int32_t size = 1; size <= kv_block_tokens; ++size)
            if (Node* const next = child(node, rest, size); next != nullptr) open.push_back(next);
    }
    return best;
}

/// From the leaf up, so that parents end before their children.
void PrefixCache::touch(Node* node) {
    for (; node->parent != nullptr; node = node->parent) by_use_.splice(by_use_.begin(), by_use_, node->place);
}

SequenceKv PrefixCache::match(std::string_view space, std::span<const int32_t> ids, int64_t tokens_max) {
    SequenceKv kv(pool_);
    const auto root = roots_.find(std::string(space));
    if (root == roots_.end()) return kv;
    Node* const last = deepest(root->second.get(), ids.first(std::min(ids.size(), static_cast<size_t>(tokens_max))));
    touch(last);
    std::vector<const Node*> path;
    for (const Node* node = last; node->parent != nullptr; node = node->parent) path.push_back(node);
    std::reverse(path.begin(), path.end());
    if (path.empty()) return kv;
    KvLease leases[layer_groups];
    std::vector<int32_t> sizes;
    for (const Node* node : path) {
        sizes.push_back(node->key.size);
        for (const LayerGroup group : groups) {
            const KvLease& block = node->leases[static_cast<int>(group)];
            KvLease& all = leases[static_cast<int>(group)];
            if (node == path.front()) {
                all = block.share();
            } else {
                all.append(block.share());
            }
        }
    }
    kv.attach(std::move(leases[0]), std::move(leases[1]), sizes);
    return kv;
}

void PrefixCache::insert(std::string_view space, std::span<const int32_t> ids, const SequenceKv& kv) {
    insert_blocks(space, ids, kv, kv.block_begin().size() - 1);
}

void PrefixCache::insert_full(std::string_view space, std::span<const int32_t> ids, const SequenceKv& kv) {
    const std::span<const int32_t> begins = kv.block_begin();
    size_t count = begins.size() - 1;
    if (count > 0 && begins[count] - begins[count - 1] < kv_block_tokens) --count;
    insert_blocks(space, ids, kv, count);
}

void PrefixCache::insert_blocks(std::string_view space, std::span<const int32_t> ids, const SequenceKv& kv,
                                size_t count) {
    assert(static_cast<int64_t>(ids.size()) >= kv.tokens());
    Node* node = root_of(space);
    const std::span<const int32_t> begins = kv.block_begin();
    for (size_t block = 0; block < count; ++block) {
        const auto part =
            ids.subspan(static_cast<size_t>(begins[block]), static_cast<size_t>(begins[block + 1] - begins[block]));
        if (part.empty()) continue;
        const Key key = key_of(node, part);
        std::unique_ptr<Node>& next = nodes_[key];
        if (next == nullptr) {
            next = std::make_unique<Node>();
            next->parent = node;
            next->key = key;
            next->depth = node->depth + key.size;
            for (const LayerGroup group : groups) {
                if (pool_.shape().layers_in(group) == 0) continue;
                next->leases[static_cast<int>(group)] = kv.share_block(group, block);
            }
            by_use_.push_front(next.get());
            next->place = by_use_.begin();
            node->child_sizes |= 1U << key.size;
            ++node->children;
            advance_claims(node, next.get());
        }
        node = next.get();
    }
    touch(node);
}

bool PrefixCache::only_here(const Node& node) const {
    return std::ranges::all_of(groups, [&](LayerGroup group) {
        const KvLease& lease = node.leases[static_cast<int>(group)];
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
    Node* const parent = node->parent;
    while (!node->claims.empty()) move_claim(*node->claims.back(), parent);
    const Key key = node->key;
    nodes_.erase(key);
    if (--parent->children == 0) parent->child_sizes = 0;
}

/// Whether there will be so many free blocks when all that nobody else holds have gone. Asks the least recently used
/// first, so that mostly no more are looked at than will go.
bool PrefixCache::could_free(int64_t blocks, bool spares_claims) const {
    int64_t missing[layer_groups] = {0, 0};
    for (const LayerGroup group : groups)
        if (pool_.shape().layers_in(group) > 0)
            missing[static_cast<int>(group)] = blocks - static_cast<int64_t>(pool_.blocks_free(group));
    const auto any_missing = [&] { return std::ranges::any_of(missing, [](int64_t count) { return count > 0; }); };
    size_t left = spares_claims ? spared_visits_max : by_use_.size();
    for (auto at = by_use_.end(); at != by_use_.begin() && left > 0 && any_missing(); --left) {
        const Node& node = **--at;
        if ((spares_claims && node.claimed > 0) || !only_here(node)) continue;
        for (const LayerGroup group : groups)
            missing[static_cast<int>(group)] -= std::ssize(node.leases[static_cast<int>(group)].blocks());
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

bool PrefixCache::make_room(int64_t blocks) {
    const auto enough = [&] {
        return std::ranges::all_of(groups, [&](LayerGroup group) {
            return pool_.shape().layers_in(group) == 0 || static_cast<int64_t>(pool_.blocks_free(group)) >= blocks;
        });
    };
    if (enough()) return true;
    if (!could_free(blocks, false)) return false;
    evict_unclaimed(enough);
    if (!enough()) evict_claimed(enough);
    if (!enough()) forget_held_ends(enough);
    return enough();
}

void PrefixCache::claim(uint64_t id, std::string_view space, std::span<const int32_t> ids) {
    const auto [made, is_new] = claims_.try_emplace(id);
    if (!is_new) return;
    Node* const root = root_of(space);
    Claim& claim = made->second;
    claim.ids.assign(ids.begin(), ids.end());
    claim.at = deepest(root, claim.ids);
    claim.at->claims.push_back(&claim);
    for (Node* node = claim.at; node->parent != nullptr; node = node->parent) ++node->claimed;
    touch(claim.at);
    claim.place = claim.arrived = unordered_places + ++claims_made_;
}

void PrefixCache::forget_claim(uint64_t id) {
    const auto found = claims_.find(id);
    if (found == claims_.end()) return;
    std::erase(found->second.at->claims, &found->second);
    for (Node* node = found->second.at; node->parent != nullptr; node = node->parent) --node->claimed;
    claims_.erase(found);
}

void PrefixCache::order_claims(std::span<const uint64_t> ids) {
    for (const uint64_t id : ordered_)
        if (const auto found = claims_.find(id); found != claims_.end()) found->second.place = found->second.arrived;
    ordered_.assign(ids.begin(), ids.end());
    for (size_t place = 0; place < ids.size(); ++place)
        if (const auto found = claims_.find(ids[place]); found != claims_.end()) found->second.place = place;
}

int64_t PrefixCache::claimed(uint64_t id) const {
    const auto found = claims_.find(id);
    return found == claims_.end() ? 0 : found->second.at->depth;
}

/// What a sequence holds it holds from the beginning on (or it has given that up), so the first block from the end that
/// somebody holds ends the count.
bool PrefixCache::could_lose(uint64_t id, int64_t tokens) const {
    const auto found = claims_.find(id);
    if (found == claims_.end() || found->second.at->depth < tokens) return false;
    int64_t alone = 0;
    for (const Node* node = found->second.at; alone < tokens; node = node->parent) {
        if (node->parent == nullptr || !only_here(*node)) return false;
        alone += node->key.size;
    }
    return true;
}

void PrefixCache::move_claim(Claim& claim, Node* to) {
    std::erase(claim.at->claims, &claim);
    claim.at = to;
    to->claims.push_back(&claim);
}

/// A block has been stored: claims that got as far as what it hangs on may go on to it.
void PrefixCache::advance_claims(Node* from, Node* to) {
    for (size_t i = 0; i < from->claims.size();) {
        Claim& claim = *from->claims[i];
        const auto rest = std::span(claim.ids).subspan(static_cast<size_t>(from->depth));
        const auto part = std::span(to->key.ids).first(static_cast<size_t>(to->key.size));
        if (rest.size() >= part.size() && std::ranges::equal(rest.first(part.size()), part)) {
            move_claim(claim, to);
            ++to->claimed;
        } else {
            ++i;
        }
    }
}

int64_t PrefixCache::blocks_unused() const {
    return std::ranges::count_if(by_use_, [&](const Node* node) { return only_here(*node); });
}

}  // namespace rondo
