// How what conversations have changed comes to the disk, many together.

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/kept_conversations.hpp"

namespace rondo {

/// Only then may go what a conversation refers to no more. Until that has gone it is marked.
Status KeptConversations::commit() {
    if (changed_ == 0) return Status::ok();
    static_cast<void>(remove_again());
    changed_ = changed_bytes_ = 0;
    const std::set<StoreName> changing = std::exchange(changing_, {});
    std::set<StoreName> relisted = std::exchange(relisted_, {});
    Manifest::Changes changes = std::exchange(changes_, {});
    const Status listed = write_lists(changes, relisted);
    const std::vector<StoreName> settled = this->settled();
    if (changing.empty() && relisted.empty() && settled.empty()) return listed;
    for (const StoreName& record : settled) Shelf::unmark(changes, record);
    for (const StoreName& record : gone_)
        if (!owners_.has_owner(record)) Shelf::mark_unlisted(changes, record);
    if (const Status committed = store_.manifest().commit(std::move(changes)); !committed) {
        failed(changing, relisted, committed.error());
        return changing.empty() && relisted.empty() ? listed : committed;  // marks may stay
    }
    for (const StoreName& record : settled) unlisted_.erase(record);
    for (const StoreName& name : changing) {
        unremoved_.erase(name);  // another one has its place
        if (const auto known = known_.find(name); known != known_.end()) unwritten_.erase(known->second.conversation);
    }
    if (gone_.empty()) return listed;
    std::ranges::copy_if(gone_, std::inserter(unlisted_, unlisted_.end()),
                         [this](const StoreName& record) { return !owners_.has_owner(record); });
    ++changed_;  // their marks go next
    const Status released = remove_nobodys(std::exchange(gone_, {}));
    return listed ? released : listed;
}

/// Each list once, however many records have come to it. Of `names` those stay whose lists are in the changes.
Status KeptConversations::write_lists(Manifest::Changes& changes, std::set<StoreName>& names) {
    Status first;
    std::erase_if(names, [&](const StoreName& name) {
        const auto found = known_.find(name);
        if (found == known_.end() || !found->second.on_shelf) return true;
        const std::set<StoreName>& own = owners_.records_of(name);
        const std::vector<StoreName> records(own.begin(), own.end());
        Status put = shelf_.put_records(changes, name, found->second.tenant, records);
        found->second.on_shelf = put.is_ok();
        if (first) first = std::move(put);
        return !found->second.on_shelf;
    });
    return first;
}

/// Marked records that need no mark once all lists are on the disk: a conversation there has them, or nobody ever will.
std::vector<StoreName> KeptConversations::settled() {
    std::vector<StoreName> records;
    // What the disk refused to remove is still there, though nobody owns it.
    if (unlisted_.empty() || !store_.remove_again()) return records;
    std::set<StoreName> going = orphans_;
    going.insert(gone_.begin(), gone_.end());
    for (const StoreName& record : unlisted_) {
        const std::set<StoreName>& owners = owners_.owners_of(record);
        const bool is_settled =
            owners.empty() ? !going.contains(record) : std::ranges::any_of(owners, [this](const StoreName& name) {
                const auto known = known_.find(name);
                return known != known_.end() && known->second.on_shelf;
            });
        if (is_settled) records.push_back(record);
    }
    return records;
}

/// What these conversations have on the shelf is older than what is known of them, until they are kept again.
void KeptConversations::failed(const std::set<StoreName>& changing, const std::set<StoreName>& relisted,
                               const Error& why) {
    for (const StoreName& name : changing) {
        const auto known = known_.find(name);
        if (known == known_.end()) continue;
        known->second.on_shelf = false;
        unwritten_.insert_or_assign(known->second.conversation, why);
    }
    relisted_.insert(relisted.begin(), relisted.end());
    if (!relisted.empty()) ++changed_;  // the next commit writes their lists
}

}  // namespace rondo
