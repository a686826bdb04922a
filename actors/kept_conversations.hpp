#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/conversation_bytes.hpp"
#include "actors/conversation_key.hpp"
#include "memory/store/kv_store.hpp"
#include "memory/store/record_owners.hpp"
#include "memory/store/shelf.hpp"

namespace rondo {

/// A conversation as it is kept: bytes of its head and of all it remembers.
struct ConversationToKeep {
    ConversationKey key;
    std::vector<std::byte> head, body;
    /// It began as a copy of this one, and has the KV of it that `ids` lead along.
    std::optional<ConversationName> fork_of = {};
    /// Rounds have gone: of the KV only what lies before so many tokens is its own.
    std::optional<int64_t> tokens_left = {};
    std::vector<int32_t> ids = {};          ///< of a fork: what it begins with
    std::vector<std::string> methods = {};  ///< of a fork: the PrefixSpace::method of its rounds that are not exact
};

/// The conversations that outlive the process, and which stored KV belongs to which. What belongs to none any more is
/// removed with them. What `keep` and `tie` change is on the disk after `commit`, in one go. Used by the store's
/// thread.
///
/// A record is durable before the list of its conversation is. Until then the store has a mark for it, and a start
/// removes records that are marked: else a conversation that is removed later would leave them behind.
class KeptConversations {
public:
    /// How conversations are named on the disk: as Shelf::name does, but for tests, which give two the same name.
    using NameOf = std::function<StoreName(const ConversationName&)>;
    explicit KeptConversations(KvStore& store, NameOf name_of = {});

    /// All there are, in order of their numbers. Called once, after a start. What belongs to conversations whose heads
    /// are lost is removed.
    Result<std::vector<ConversationHead>> heads();
    /// Tells on any thread whether a newer version wrote the conversation of that name, as far as `heads` has found
    /// them. Such a conversation is not listed, and `keep` and `remove` of its name are `unsupported`.
    std::function<bool(const ConversationName&)> newer() const;
    Status keep(const ConversationToKeep& conversation);
    Result<std::vector<std::byte>> body(const ConversationName& name);
    /// What is told of it later is not kept. It leaves the disk with `clear_removed`.
    Status remove(const ConversationKey& key);
    /// All that were removed, in one go. They are in no file any more when `forget_removed` has returned.
    Status clear_removed();
    Status forget_removed();
    /// Of this conversation's KV a record is stored. Whose a new record is must be told before the next `commit`.
    Status tie(const ConversationKey& key, const StoreName& record);

    /// An error: some of what has changed is not on the disk, and will be with the next change of the same
    /// conversation.
    Status commit();
    /// An error: what the disk has of some conversation is older than what was to be kept last, and why of one.
    Status all_written() const { return unwritten_.empty() ? Status::ok() : Status(unwritten_.begin()->second); }

    size_t count() const { return known_.size(); }
    int64_t count_of(const Tenant& tenant) const;
    int64_t damaged() const { return shelf_.damaged(); }

private:
    using Numbered = std::pair<StoreName, uint64_t>;  // a conversation's name and number
    /// What a fork began with.
    struct Path {
        std::vector<int32_t> ids;  // fewer once rounds of the fork went, none once the fork is removed
        std::vector<std::string> methods;
        std::map<StoreName, PrefixName> ends;  // by the names of its beginning and of the records that lie on it
    };
    /// Rounds of the origin that are still on their way to the disk may be the fork's, too.
    struct Fork {
        Numbered origin, self;
        Path path;
    };
    struct Known {
        ConversationName conversation;  // whose the name is
        uint64_t number = 0;
        StoreName tenant{};
        bool on_shelf = false;  // as it was kept last, or it will be with the next commit
        /// A record that was on its way when rounds went is its own only as far as it lies before them.
        bool may_own(uint64_t cuts, int64_t tokens) const;
        void cut(uint64_t cuts, int64_t tokens_left);

        std::vector<std::pair<uint64_t, int64_t>> cuts = {};  // and the tokens that were left; both ascend
    };
    StoreName name_of(const ConversationName& name) const {
        return name_of_ ? name_of_(name) : shelf_.name(name.tenant, name.id);
    }
    Result<size_t> put(const ConversationToKeep& conversation, const StoreName& name);
    Known& known(const ConversationKey& key, const StoreName& name);
    /// The name is another conversation's. Without keys names are a hash that is no secret, so somebody could search
    /// for an id that has the name of another tenant's conversation.
    bool is_anothers(const StoreName& name, const ConversationName& conversation) const;
    void begin_fork(const ConversationToKeep& fork, const StoreName& name);
    void note_fork(Fork fork);
    void shorten_path(const StoreName& fork, size_t tokens);
    bool is_on(Path& path, const StoredRecord& record) const;
    void tie_to_forks(const Numbered& origin, const StoredRecord& record);
    void add_late(const StoreName& name, const StoreName& record);
    void is_gone(const StoreName& record);
    void remove_left_behind(const Result<Shelf::Headless>& headless);
    Status write_lists(Manifest::Changes& changes, std::set<StoreName>& names);
    std::vector<StoreName> settled();
    void failed(const std::set<StoreName>& changing, const std::set<StoreName>& relisted, const Error& why);
    bool is_nobodys(const StoreName& record) const;
    Status remove_nobodys(std::vector<StoreName> records);
    Status remove_again();
    bool is_removed(const StoreName& name, uint64_t number) const;
    Status changed(size_t bytes);

    KvStore& store_;
    Shelf shelf_;
    NameOf name_of_;
    std::map<StoreName, Known> known_;
    RecordOwners owners_;        // the conversations that have records
    std::deque<Fork> forks_;     // the last that began, also removed ones: forks of these are found through them
    std::set<StoreName> newer_;  // that a newer version wrote
    std::map<StoreName, uint64_t> removed_;  // the number of the last one of a name that was
    std::deque<StoreName> removed_in_order_;
    std::set<StoreName> leaving_;    // that were removed, and are on the disk until they are cleared
    std::set<StoreName> orphans_;    // the records of these
    std::set<StoreName> unremoved_;  // that the disk did not let go: tried again
    Manifest::Changes changes_;      // that are not on the disk yet
    std::set<StoreName> changing_;   // whose
    std::set<StoreName> relisted_;   // conversations on the shelf that have more records than their lists there say
    std::set<StoreName> unlisted_;   // records that are marked so on the disk
    std::map<ConversationName, Error> unwritten_;  // that changed last in vain
    size_t changed_ = 0, changed_bytes_ = 0;
    std::vector<StoreName> gone_;  // records that a conversation has given up with them
    std::shared_ptr<KeptConversations*> self_ = std::make_shared<KeptConversations*>(this);  // for who tells it
};

}  // namespace rondo
