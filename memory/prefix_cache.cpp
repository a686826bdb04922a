#include "memory/prefix_cache.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <vector>

namespace rondo {

namespace {

// Where the same tokens were cut into rounds differently there are several ways down. After so many blocks that led no
// further none is tried any more.
constexpr int detours_max = 1 << 16;
// Of claims that nobody has put in order, after all that somebody has.
constexpr uint64_t unordered_places = uint64_t{1} << 32;

}  // namespace

PrefixCache::PrefixCache(KvPool& pool, NameOfBlock name_of) : pool_(pool), name_of_(name_of) {}
PrefixCache::~PrefixCache() = default;

/// What a name only promises. The parents' contents were compared on the way here.
bool PrefixCache::Node::is(const Node* behind, std::span<const int32_t> those, const Way* by) const {
    return parent == behind && way == by && std::ranges::equal(own_ids(), those);
}

PrefixCache::Way& PrefixCache::way_of(const std::string& tenant, const std::string& method) {
    const auto [tree, is_new] = trees_.try_emplace(tenant);
    if (is_new) {
        tree->second = std::make_unique<Tree>();
        tree->second->tenant = &tree->first;
        tree->second->root.name = name_of_space(tenant);
    }
    const auto [way, is_new_way] = tree->second->ways.try_emplace(method);
    if (is_new_way) {
        way->second.tree = tree->second.get();
        way->second.method = &way->first;
        const PrefixName mark = name_of_space(method);
        static_assert(sizeof(mark) <= sizeof(way->second.mark));
        std::memcpy(way->second.mark.data(), &mark, sizeof(mark));
    }
    return way->second;
}

/// Clients name budgets, and hosts tenants: what was named once must not be remembered for good.
void PrefixCache::leave(Way& way) {
    if (--way.users > 0) return;
    Tree* const tree = way.tree;
    tree->ways.erase(tree->ways.find(*way.method));
    if (tree->ways.empty()) trees_.erase(trees_.find(*tree->tenant));
}

/// In which blocks are looked for: where two lead as far, by the one that is named last.
PrefixCache::Ways PrefixCache::ways_of(const Tree& tree, const PrefixSpace& space) {
    Ways ways;
    for (const std::string& method : {space.method, std::string()})
        if (const auto way = tree.ways.find(method); way != tree.ways.end()) ways.push_back(&way->second);
    if (space.is_exact() && ways.size() > 1) ways.pop_back();
    return ways;
}

PrefixName PrefixCache::name_behind(const Node& node, std::span<const int32_t> ids, const Way& way) const {
    const bool parts = node.is_exact() && !way.is_exact();
    return name_of_(parts ? name_of_(node.name, way.mark) : node.name, ids);
}

PrefixCache::Node* PrefixCache::child(const Node* node, std::span<const int32_t> ids, int32_t size,
                                      const Way& way) const {
    if ((node->child_sizes >> size & 1U) == 0 || ids.size() < static_cast<size_t>(size)) return nullptr;
    if (way.is_exact() && !node->is_exact()) return nullptr;
    const auto part = ids.first(static_cast<size_t>(size));
    const auto found = nodes_.find(name_behind(*node, part, way));
    return found == nodes_.end() || !found->second->is(node, part, &way) ? nullptr : found->second.get();
}

/// Every way down that spells `ids`, full blocks first; the node that is reached last in terms of tokens.
PrefixCache::Node* PrefixCache::deepest(Node* root, std::span<const int32_t> ids, const Ways& ways) const {
    Node* best = root;
    std::vector<Node*> open{root};
    for (int detours = 0; !open.empty() && detours < detours_max;) {
        Node* const node = open.back();
        open.pop_back();
        if (node->depth > best->depth)
            best = node;
        else
            ++detours;
        if (best->depth == static_cast<int64_t>(ids.size())) break;
        const auto rest = ids.subspan(static_cast<size_t>(node->depth));
        for (int32_t size = 1; size <= kv_block_tokens; ++size)
            for (const Way* const way : ways)
                if (Node* const next = child(node, rest, size, *way); next != nullptr) open.push_back(next);
    }
    return best;
}

/// The last stored block that ids lead to; a root, or null, if none is.
PrefixCache::Node* PrefixCache::found(const PrefixSpace& space, std::span<const int32_t> ids) const {
    const auto tree = trees_.find(space.tenant);
    if (tree == trees_.end()) return nullptr;
    return deepest(&tree->second->root, ids, ways_of(*tree->second, space));
}

/// From the leaf up, so that parents end before their children.
void PrefixCache::touch(Node* node) {
    for (; node->parent != nullptr; node = node->parent) by_use_.splice(by_use_.begin(), by_use_, node->place);
}

SequenceKv PrefixCache::match(const PrefixSpace& space, std::span<const int32_t> ids, int64_t tokens_max,
                              std::vector<int64_t> round_ends) {
    SequenceKv kv(pool_);
    kv.plan_rounds(std::move(round_ends));
    Node* const last = found(space, ids.first(std::min(ids.size(), static_cast<size_t>(tokens_max))));
    if (last == nullptr) return kv;
    touch(last);
    std::vector<const Node*> path;
    for (const Node* node = last; node->parent != nullptr; node = node->parent) path.push_back(node);
    std::reverse(path.begin(), path.end());
    if (path.empty()) return kv;
    PerGroup<KvLease> leases;
    std::vector<int32_t> sizes;
    for (const Node* node : path) {
        sizes.push_back(node->size);
        for (const LayerGroup group : layer_groups) leases[group].append(node->leases[group].share());
    }
    kv.attach(std::move(leases), sizes);
    const auto inexact = std::ranges::find_if(path, [](const Node* node) { return !node->is_exact(); });
    if (inexact != path.end()) kv.go_on_inexactly((*inexact)->parent->depth);
    return kv;
}

std::vector<PrefixCache::Kept> PrefixCache::kept(const PrefixSpace& space, std::span<const int32_t> ids) const {
    std::vector<Kept> all;
    for (const Node* node = found(space, ids); node != nullptr && node->parent != nullptr; node = node->parent)
        all.push_back({node->name, node->depth, node->lies, node->is_exact() ? Exactness::exact : Exactness::sparse});
    std::reverse(all.begin(), all.end());
    return all;
}

std::vector<PrefixSpace> PrefixCache::spaces_of(const std::string& tenant) const {
    std::vector<PrefixSpace> spaces;
    const auto tree = trees_.find(tenant);
    if (tree == trees_.end()) return spaces;
    for (const auto& [method, way] : tree->second->ways) spaces.emplace_back(tenant, method);
    return spaces;
}

/// What its owner has turned away from (rounds that were taken back, tokens nobody was told) hangs behind what `ids`
/// lead along, so it goes first. The same ids may be stored in several cuts, and in several ways.
int64_t PrefixCache::forget(const std::string& tenant, std::span<const int32_t> ids, uint64_t owner) {
    int64_t tokens = 0;
    if (const auto all = by_owner_.find(owner); all != by_owner_.end()) {
        const std::vector<Node*> owned(all->second.rbegin(), all->second.rend());
        for (Node* const node : owned)
            if (node->children == 0 && node->claims.empty()) tokens += forget_leaf(node);
    }
    for (int64_t before = blocks() + 1; blocks() < before;) {
        before = blocks();
        for (const PrefixSpace& space : spaces_of(tenant)) {
            for (Node* node = found(space, ids); node != nullptr && node->parent != nullptr;) {
                if (node->children > 0 || !node->claims.empty()) break;
                Node* const parent = node->parent;
                const bool last = parent->parent == nullptr && parent->children == 1;  // the tree goes with it
                tokens += forget_leaf(node);
                if (last) break;
                node = parent;
            }
        }
    }
    return tokens;
}

int64_t PrefixCache::forget_leaf(Node* node) {
    const int64_t freed = only_here(*node) ? node->size : 0;
    remove(node);
    return freed;
}

/// Where a whole sequence's blocks begin: in one group as in the other.
std::span<const int32_t> PrefixCache::borders(const SequenceKv& kv) const {
    return kv.block_begin(pool_.shape().has(LayerGroup::upper) ? LayerGroup::upper : LayerGroup::lower);
}

void PrefixCache::insert(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv, uint64_t owner) {
    insert_blocks(space, ids, kv, borders(kv).size() - 1, owner);
}

void PrefixCache::insert_full(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv,
                              uint64_t owner) {
    const std::span<const int32_t> begins = borders(kv);
    size_t count = begins.size() - 1;
    if (count > 0 && begins[count] - begins[count - 1] < kv_block_tokens) --count;
    insert_blocks(space, ids, kv, count, owner);
}

void PrefixCache::insert_blocks(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv,
                                size_t count, uint64_t owner) {
    assert(static_cast<int64_t>(ids.size()) >= kv.tokens());
    assert(!space.is_exact() || kv.exact_tokens() == kv.tokens());
    if (count == 0 || !kv.is_whole()) return;
    Way& way = way_of(space.tenant, space.method);
    Way& exact = way_of(space.tenant, {});
    ++way.users;  // until all is stored
    ++exact.users;
    Node* node = &way.tree->root;
    const std::span<const int32_t> begins = borders(kv);
    for (size_t block = 0; block < count; ++block) {
        const auto part =
            ids.subspan(static_cast<size_t>(begins[block]), static_cast<size_t>(begins[block + 1] - begins[block]));
        Way& by = begins[block + 1] <= kv.exact_tokens() ? exact : way;
        const PrefixName name = name_behind(*node, part, by);
        std::unique_ptr<Node>& next = nodes_[name];
        if (next == nullptr) {
            next = std::make_unique<Node>();
            next->name = name;
            next->way = &by;
            ++by.users;
            fill(*next, node, part, kv, block);
            own(*next, owner);
        } else if (!next->is(node, part, &by)) {
            break;  // another block has its name
        }
        node = next.get();
    }
    touch(node);
    leave(exact);
    leave(way);
}

void PrefixCache::fill(Node& made, Node* parent, std::span<const int32_t> ids, const SequenceKv& kv, size_t block) {
    made.parent = parent;
    made.size = static_cast<int32_t>(ids.size());
    std::ranges::copy(ids, made.ids.begin());
    made.depth = parent->depth + made.size;
    for (const LayerGroup group : layer_groups)
        if (pool_.shape().has(group)) made.leases[group] = kv.share_block(group, block);
    by_use_.push_front(&made);
    made.place = by_use_.begin();
    parent->child_sizes |= 1U << made.size;
    ++parent->children;
    advance_claims(parent, &made);
}

void PrefixCache::own(Node& made, uint64_t owner) {
    if (owner == 0) return;
    std::list<Node*>& all = by_owner_[owner];
    made.owner = owner;
    made.owned = all.insert(all.end(), &made);
}

void PrefixCache::claim(uint64_t id, const PrefixSpace& space, std::span<const int32_t> ids) {
    const auto [made, is_new] = claims_.try_emplace(id);
    if (!is_new) return;
    Claim& claim = made->second;
    claim.way = &way_of(space.tenant, space.method);
    ++claim.way->users;
    claim.ids.assign(ids.begin(), ids.end());
    claim.at = found(space, claim.ids);
    claim.at->claims.push_back(&claim);
    for (Node* node = claim.at; node->parent != nullptr; node = node->parent) ++node->claimed;
    touch(claim.at);
    claim.place = claim.arrived = unordered_places + ++claims_made_;
}

void PrefixCache::forget_claim(uint64_t id) {
    const auto found = claims_.find(id);
    if (found == claims_.end()) return;
    Node* const end = found->second.at;
    std::erase(end->claims, &found->second);
    for (Node* node = end; node->parent != nullptr; node = node->parent) --node->claimed;
    Way& way = *found->second.way;
    claims_.erase(found);
    leave(way);
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
        alone += node->size;
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
        const auto part = to->own_ids();
        const bool may = to->is_exact() || to->way == claim.way;
        if (may && rest.size() >= part.size() && std::ranges::equal(rest.first(part.size()), part)) {
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
