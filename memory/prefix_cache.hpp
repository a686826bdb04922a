#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memory/kv_pool.hpp"
#include "memory/prefix_name.hpp"
#include "memory/prefix_space.hpp"
#include "memory/sequence_kv.hpp"

namespace rondo {

/// Where the KV of a stored block lies.
enum class KvPlace : uint8_t { device };
/// How it was computed: as dense attention does, or by a method that leaves keys out.
enum class Exactness : uint8_t { exact, sparse };

/// Canonical blocks that may be used again: a tree of them, a block a node, by the tokens that lead to it. Sequences
/// that begin with the same tokens share its blocks, and need not know of each other. So a conversation's next turn, a
/// fork, a rewound conversation, a preempted turn and a client who resends his history find what was computed before.
///
/// Blocks are found by their names (prefix_name.hpp), and then compared by their ids. Where two of different contents
/// had one name, the first would be kept and the other one not stored.
///
/// Each tenant has a tree of his own. What is exact in it is shared by all his sequences; what a method computed hangs
/// behind that and is this method's alone. A block is kept until room is needed; then the one used longest ago goes
/// first, unless a sequence still holds it. What hangs on a block that goes is forgotten with it, and is its holder's
/// alone. Not shared between threads.
///
/// A claim says what somebody who waits will ask for. It holds nothing: it only makes others go first, and of claimed
/// blocks those go first whose claim is furthest back.
class PrefixCache {
public:
    using NameOfBlock = PrefixName (*)(const PrefixName& before, std::span<const int32_t> ids);
    /// Tests of equal names bring another `name_of`.
    explicit PrefixCache(KvPool& pool, NameOfBlock name_of = name_of_block);
    ~PrefixCache();
    PrefixCache(const PrefixCache&) = delete;
    PrefixCache& operator=(const PrefixCache&) = delete;

    /// A sequence that holds the blocks of the longest stored prefix of `ids`, at most `tokens_max` of them. Its rounds
    /// end as `round_ends` say.
    SequenceKv match(const PrefixSpace& space, std::span<const int32_t> ids, int64_t tokens_max,
                     std::vector<int64_t> round_ends = {});
    /// Keeps the blocks of a sequence whose keys are those of `ids` (as many as it has keys). Their contents must be
    /// complete, and nobody may write to them again. Of a sequence that is not whole nothing is kept. What was not
    /// stored before is this owner's; 0: nobody's.
    void insert(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv, uint64_t owner = 0);
    /// The same for a sequence that goes on: all but a last block that is not full.
    void insert_full(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv, uint64_t owner = 0);
    /// A stored block.
    struct Kept {
        PrefixName name;
        int64_t tokens = 0;  ///< up to and with it
        KvPlace place = KvPlace::device;
        Exactness exactness = Exactness::exact;
        bool operator==(const Kept&) const = default;
    };
    /// The blocks of the longest stored prefix of `ids`. Asking is no use of them.
    std::vector<Kept> kept(const PrefixSpace& space, std::span<const int32_t> ids) const;
    /// Those of a tenant that have stored blocks or claims of their own.
    std::vector<PrefixSpace> spaces_of(const std::string& tenant) const;
    /// Forgets an owner's blocks, and those that `ids` lead along, exact or not, as far as nothing else hangs on them
    /// or waits for them. Who holds them keeps them. Returns how many tokens nobody holds any more.
    int64_t forget(const std::string& tenant, std::span<const int32_t> ids, uint64_t owner = 0);
    /// Gives blocks back until so many of each group are free; false, and nothing goes, if that cannot be.
    bool make_room(const BlockCounts& blocks);

    /// What `match` will be asked for under this id, until it is forgotten; nothing happens if the id has a claim.
    /// Where the same tokens are stored in several ways, the claim follows one of them.
    void claim(uint64_t id, const PrefixSpace& space, std::span<const int32_t> ids);
    void forget_claim(uint64_t id);
    /// The claims' order from now on, the next to be served first. Those that are not named come behind these.
    void order_claims(std::span<const uint64_t> ids);
    /// Tokens of a claim that are stored, or none.
    int64_t claimed(uint64_t id) const;
    /// Whether `make_room` would do with blocks that have no claim. Does not look at all of a large cache, so that it
    /// may say no where it would.
    bool could_spare_claims(const BlockCounts& blocks) const { return could_free(blocks, true); }
    /// Whether the cache alone holds so many of a claim's stored tokens that it may evict them.
    bool could_lose(uint64_t id, int64_t tokens) const;
    /// That have stored blocks or claims.
    int64_t tenants() const { return static_cast<int64_t>(trees_.size()); }
    int64_t claims() const { return static_cast<int64_t>(claims_.size()); }

    int64_t blocks() const { return static_cast<int64_t>(by_use_.size()); }
    /// Blocks that nobody but the cache holds, counted one by one: for tests and metrics.
    int64_t blocks_unused() const;
    int64_t evictions() const { return evictions_; }

private:
    struct Node;
    struct Tree;
    /// How blocks of a tree were computed: one of these for what is exact, and one for each method.
    struct Way {
        bool is_exact() const { return method->empty(); }

        Tree* tree = nullptr;
        const std::string* method = nullptr;             // its key in the tree
        std::array<int32_t, kv_block_tokens> mark = {};  // by which the first that is not exact is named
        int64_t users = 0;                               // blocks and claims
    };
    using Ways = std::vector<const Way*>;
    struct Claim {
        Way* way;
        std::vector<int32_t> ids;
        Node* at;          // the last of its blocks that is stored; a root if none is
        uint64_t place;    // the least is served next
        uint64_t arrived;  // its place while nobody says one
    };
    struct Node {
        std::span<const int32_t> own_ids() const { return std::span(ids).first(static_cast<size_t>(size)); }
        bool is(const Node* behind, std::span<const int32_t> those, const Way* by) const;
        bool is_exact() const { return way == nullptr || way->is_exact(); }

        PrefixName name;
        Node* parent = nullptr;  // none: a tree's root, which is no block
        Way* way = nullptr;
        int32_t size = 0;  // of its block
        KvPlace lies = KvPlace::device;
        std::array<int32_t, kv_block_tokens> ids{};
        PerGroup<KvLease> leases;
        int64_t depth = 0;         // tokens up to and with this block
        uint32_t child_sizes = 0;  // bit s: there is or was a child of s tokens
        int32_t children = 0;
        int32_t claimed = 0;               // claims whose way leads through here
        std::list<Node*>::iterator place;  // in by_use_; the roots are not in it
        uint64_t owner = 0;
        std::list<Node*>::iterator owned;  // among its owner's, if there is one
        std::vector<Claim*> claims;        // that end here
    };
    struct Tree {
        const std::string* tenant = nullptr;  // its key in trees_
        Node root;
        std::map<std::string, Way> ways;  // by method
    };

    void insert_blocks(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv, size_t count,
                       uint64_t owner);
    void fill(Node& made, Node* parent, std::span<const int32_t> ids, const SequenceKv& kv, size_t block);
    void own(Node& made, uint64_t owner);
    int64_t forget_leaf(Node* node);
    Node* found(const PrefixSpace& space, std::span<const int32_t> ids) const;
    std::span<const int32_t> borders(const SequenceKv& kv) const;
    Way& way_of(const std::string& tenant, const std::string& method);
    static Ways ways_of(const Tree& tree, const PrefixSpace& space);
    void leave(Way& way);
    PrefixName name_behind(const Node& node, std::span<const int32_t> ids, const Way& way) const;
    Node* child(const Node* node, std::span<const int32_t> ids, int32_t size, const Way& way) const;
    Node* deepest(Node* root, std::span<const int32_t> ids, const Ways& ways) const;
    void touch(Node* node);
    void advance_claims(Node* from, Node* to);
    static void move_claim(Claim& claim, Node* to);
    bool only_here(const Node& node) const;
    bool could_free(const BlockCounts& blocks, bool spares_claims) const;
    /// Something it hangs on could go, but for it.
    bool holds_up_others(const Node& node) const;
    void remove(Node* node);
    void evict(Node* node);
    template <class Enough>
    void evict_unclaimed(const Enough& enough);
    template <class Enough>
    void evict_claimed(const Enough& enough);
    template <class Enough>
    void forget_held_ends(const Enough& enough);

    KvPool& pool_;
    const NameOfBlock name_of_;
    std::unordered_map<std::string, std::unique_ptr<Tree>> trees_;  // by tenant
    std::unordered_map<PrefixName, std::unique_ptr<Node>, PrefixName::Hash> nodes_;
    std::list<Node*> by_use_;  // latest first; a parent always stands before its children
    std::unordered_map<uint64_t, std::list<Node*>> by_owner_;  // here too
    int64_t evictions_ = 0;
    std::unordered_map<uint64_t, Claim> claims_;  // by id
    std::vector<uint64_t> ordered_;               // those whose place somebody has said
    uint64_t claims_made_ = 0;
};

}  // namespace rondo
