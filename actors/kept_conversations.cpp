#include "actors/kept_conversations.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rondo {

namespace {

constexpr size_t removed_max = 100'000;  // names that are remembered

}  // namespace

KeptConversations::KeptConversations(KvStore& store) : store_(store), shelf_(store.manifest(), store.keys()) {
    store_.when_gone([self = std::weak_ptr(self_)](const StoreName& record) {
        if (const auto there = self.lock()) (*there)->is_gone(record);
    });
}

/// Should it be written again, it is another one that nobody has yet.
void KeptConversations::is_gone(const StoreName& record) {
    std::erase(gone_, record);
    const auto owners = owners_.extract(record);
    if (owners.empty()) return;
    for (const StoreName& name : owners.mapped())
        if (const auto known = known_.find(name); known != known_.end()) known->second.records.erase(record);
}

Result<std::vector<ConversationHead>> KeptConversations::heads() {
    std::vector<ConversationHead> heads;
    RONDO_TRY(shelf_.each_head([&](const StoreName& name, std::span<const std::byte> bytes) {
        Result<ConversationHead> head = read_head(bytes);
        if (!head || name_of(head->name) != name) return Status::ok();  // of another version, or nobody's
        known_[name] = {head->number, store_.tenant_name(head->name.tenant), true, {}, {}};
        if (const auto records = shelf_.records(name); records)
            for (const StoreName& record : *records)
                if (store_.index().find(record) != nullptr) own(name, record);
        heads.push_back(std::move(*head));
        return Status::ok();
    }));
    std::ranges::sort(heads, {}, &ConversationHead::number);
    return heads;
}

bool KeptConversations::Known::may_own(uint64_t before, int64_t tokens) const {
    const auto next = std::ranges::upper_bound(cuts, before, {}, [](const auto& cut) { return cut.first; });
    return next == cuts.end() || tokens <= next->second;
}

/// What leaves more than a later one says nothing any more.
void KeptConversations::Known::cut(uint64_t number, int64_t tokens_left) {
    while (!cuts.empty() && cuts.back().second >= tokens_left) cuts.pop_back();
    cuts.emplace_back(number, tokens_left);
}

KeptConversations::Known& KeptConversations::known(const ConversationKey& key, const StoreName& name) {
    Known& known = known_[name];
    known.number = std::max(known.number, key.number);
    known.tenant = store_.tenant_name(key.name.tenant);
    return known;
}

int64_t KeptConversations::count_of(const Tenant& tenant) const {
    const StoreName name = store_.tenant_name(tenant);
    return std::ranges::count_if(known_, [&](const auto& one) { return one.second.tenant == name; });
}

bool KeptConversations::is_removed(const StoreName& name, uint64_t number) const {
    const auto found = removed_.find(name);
    return found != removed_.end() && number <= found->second;
}

Status KeptConversations::keep(const ConversationToKeep& conversation) {
    const StoreName name = name_of(conversation.key.name);
    if (is_removed(name, conversation.key.number)) return Status::ok();
    Known& known = this->known(conversation.key, name);
    if (conversation.fork_of) {
        const auto origin = known_.find(name_of(*conversation.fork_of));
        if (origin != known_.end()) {
            // What is still on its way to the disk will be the fork's, too.
            origin->second.forks.emplace_back(name, conversation.tokens_left.value_or(0));
            known.fork_of = origin->first;
            for (const StoreName& record : std::set<StoreName>(origin->second.records)) own(name, record);
        }
    }
    if (conversation.tokens_left) {
        if (!conversation.fork_of) cut(name, conversation.key.cuts, *conversation.tokens_left);
        for (const StoreName& record : std::set<StoreName>(known.records)) {
            const StoredRecord* const found = store_.index().find(record);
            if (found != nullptr && found->tokens_before + found->tokens <= *conversation.tokens_left) continue;
            disown(name, record);
            gone_.push_back(record);
        }
    }
    RONDO_TRY(shelf_.put(changes_, name, known.tenant, conversation.head, conversation.body,
                         std::vector<StoreName>(known.records.begin(), known.records.end())));
    known.on_shelf = true;
    changing_.insert(name);
    return changed(conversation.head.size() + conversation.body.size());
}

/// Rounds of it have gone, also such as are still on their way to the disk.
void KeptConversations::cut(const StoreName& name, uint64_t cuts, int64_t tokens_left) {
    Known& known = known_[name];
    known.cut(cuts, tokens_left);
    const auto origin = known.fork_of ? known_.find(*known.fork_of) : known_.end();
    if (origin == known_.end()) return;
    for (auto& [fork, tokens] : origin->second.forks)
        if (fork == name) tokens = std::min(tokens, tokens_left);
}

/// Not more at a time than a manifest's log should have.
Status KeptConversations::changed(size_t bytes) {
    constexpr size_t bytes_max = size_t{4} << 20;
    ++changed_;
    changed_bytes_ += bytes;
    return changed_bytes_ > bytes_max ? commit() : Status::ok();
}

/// Only then may go what a conversation refers to no more.
Status KeptConversations::commit() {
    if (changed_ == 0) return Status::ok();
    static_cast<void>(remove_again());
    changed_ = changed_bytes_ = 0;
    const std::set<StoreName> changing = std::exchange(changing_, {});
    RONDO_TRY(store_.manifest().commit(std::exchange(changes_, {})));
    for (const StoreName& name : changing) unremoved_.erase(name);  // another one has its place
    return store_.release(std::exchange(gone_, {}));
}

/// Read by a session that counts from 0 again how often rounds went.
Result<std::vector<std::byte>> KeptConversations::body(const ConversationName& conversation) {
    const StoreName name = name_of(conversation);
    const bool changes = changing_.contains(name);
    // On a full disk what is there is read, whatever becomes of others' changes.
    if (const Status committed = commit(); !committed && changes) return committed.error();
    if (const auto found = known_.find(name); found != known_.end()) found->second.cuts.clear();
    return shelf_.body(name);
}

Status KeptConversations::remove(const ConversationKey& key) {
    const StoreName name = name_of(key.name);
    if (is_removed(name, key.number)) return Status::ok();
    static_cast<void>(commit());  // it goes whether that was written or not, and what it gave up before
    static_cast<void>(store_.release(std::exchange(gone_, {})));
    if (removed_.insert_or_assign(name, key.number).second) removed_in_order_.push_back(name);
    if (removed_in_order_.size() > removed_max) {
        removed_.erase(removed_in_order_.front());
        removed_in_order_.pop_front();
    }
    Status released;
    if (const auto found = known_.find(name); found != known_.end()) {
        const Known gone = std::move(found->second);
        known_.erase(found);
        for (const StoreName& record : gone.records) disown(name, record);
        if (const auto origin = gone.fork_of ? known_.find(*gone.fork_of) : known_.end(); origin != known_.end())
            std::erase_if(origin->second.forks, [&](const auto& fork) { return fork.first == name; });
        // What the disk refuses to remove leaves with those that leave next.
        released = store_.release(std::vector<StoreName>(gone.records.begin(), gone.records.end()));
    }
    unremoved_.insert(name);
    const Status removed = remove_again();
    return released ? removed : released;
}

Status KeptConversations::remove_again() {
    Status first;
    std::erase_if(unremoved_, [&](const StoreName& name) {
        Status removed = shelf_.remove(name);
        const bool is_gone = removed.is_ok();
        if (first) first = std::move(removed);
        return is_gone;
    });
    return first;
}

Status KeptConversations::tie(const ConversationKey& key, const StoreName& record) {
    const StoreName name = name_of(key.name);
    // Its conversation has gone meanwhile.
    if (is_removed(name, key.number)) return store_.remove_if_nobodys(record);
    known(key, name);
    const StoredRecord* const found = store_.index().find(record);
    if (found == nullptr) return Status::ok();
    const int64_t end = found->tokens_before + found->tokens;
    std::vector<StoreName> owners{name};
    for (size_t i = 0; i < owners.size(); ++i) {  // forks, and theirs
        const auto owner = known_.find(owners[i]);
        if (owner == known_.end()) continue;
        const bool may_own = i > 0 || owner->second.may_own(key.cuts, end);
        if (may_own && own(owners[i], record) && owner->second.on_shelf) {
            const std::vector<StoreName> records(owner->second.records.begin(), owner->second.records.end());
            RONDO_TRY(shelf_.put_records(changes_, owners[i], owner->second.tenant, records));
            RONDO_TRY(changed(records.size() * sizeof(StoreName)));
        }
        for (const auto& [fork, tokens] : owner->second.forks)
            if (end <= tokens) owners.push_back(fork);
    }
    return store_.remove_if_nobodys(record);
}

/// False: it did before.
bool KeptConversations::own(const StoreName& name, const StoreName& record) {
    if (!known_[name].records.insert(record).second) return false;
    owners_[record].insert(name);
    store_.refer({&record, 1});
    return true;
}

void KeptConversations::disown(const StoreName& name, const StoreName& record) {
    if (const auto known = known_.find(name); known != known_.end()) known->second.records.erase(record);
    const auto owners = owners_.find(record);
    if (owners == owners_.end()) return;
    owners->second.erase(name);
    if (owners->second.empty()) owners_.erase(owners);
}

Status KeptConversations::forget_removed() {
    const Status committed = commit(), removed = remove_again(), forgotten = store_.forget_removed();
    RONDO_TRY(committed);
    RONDO_TRY(removed);
    return forgotten;
}

}  // namespace rondo
