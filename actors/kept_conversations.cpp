#include "actors/kept_conversations.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rondo {

namespace {

constexpr size_t removed_max = 100'000;  // names that are remembered
constexpr size_t forks_max = 64;         // forks that are noted

Error newer_wrote_it() {
    return make_error(ErrorCode::unsupported, "a newer version wrote this conversation, so it stays as it is");
}

Error anothers_name() {
    return make_error(ErrorCode::not_found, "another conversation has this one's name on the disk, so it is not there");
}

int64_t end_of(const StoredRecord& record) {
    return record.tokens_before + record.tokens;
}

}  // namespace

KeptConversations::KeptConversations(KvStore& store, NameOf name_of)
    : store_(store), shelf_(store.manifest(), store.keys()), name_of_(std::move(name_of)) {
    store_.when_gone([self = std::weak_ptr(self_)](const StoreName& record) {
        if (const auto there = self.lock()) (*there)->is_gone(record);
    });
    store_.when_found([self = std::weak_ptr(self_)](Manifest::Changes& changes, std::span<const StoreName> records) {
        const auto there = self.lock();
        if (!there) return;
        for (const StoreName& record : records) Shelf::mark_unlisted(changes, record);
        (*there)->unlisted_.insert(records.begin(), records.end());
        ++(*there)->changed_;
    });
}

/// A record of this name that is written later is a new record: no conversation owns it yet.
void KeptConversations::is_gone(const StoreName& record) {
    std::erase(gone_, record);
    orphans_.erase(record);
    owners_.is_gone(record);
}

Result<std::vector<ConversationHead>> KeptConversations::heads() {
    std::vector<ConversationHead> heads;
    size_t without_list = 0;
    const Result<Shelf::Headless> headless = shelf_.headless();
    if (headless) newer_ = headless->newer;
    RONDO_TRY(shelf_.each_head([&](const StoreName& name, std::span<const std::byte> bytes) {
        Result<ConversationHead> head = read_head(bytes);
        if (!head && head.error().code == ErrorCode::unsupported) newer_.insert(name);
        const bool is_other = !head || newer_.contains(name);
        if (is_other || name_of(head->name) != name) return Status::ok();  // of another version, or nobody's
        known_[name] = {.conversation = head->name,
                        .number = head->number,
                        .tenant = store_.tenant_name(head->name.tenant),
                        .on_shelf = true};
        const auto records = shelf_.records(name);
        if (!records) {
            ++without_list;
        } else {
            for (const StoreName& record : *records)
                if (store_.index().find(record) != nullptr) owners_.add(name, record);
        }
        heads.push_back(std::move(*head));
        return Status::ok();
    }));
    if (without_list > 0)
        store_.note("conversations whose list of stored KV is lost: " + std::to_string(without_list) +
                    "; their KV is not deleted with them, but when it has not been used for memory.disk.unused_s");
    remove_left_behind(headless);
    std::ranges::sort(heads, {}, &ConversationHead::number);
    return heads;
}

std::function<bool(const ConversationName&)> KeptConversations::newer() const {
    return [keys = store_.keys(), names = newer_](const ConversationName& name) {
        return !names.empty() && names.contains(Shelf::name(keys, name.tenant, name.id));
    };
}

/// What conversations without a head had, and records that are marked as unlisted. Records go first: should they stay,
/// the next start must know of them.
void KeptConversations::remove_left_behind(const Result<Shelf::Headless>& headless) {
    const auto unlisted = shelf_.unlisted();
    if (!headless || !unlisted) return store_.note("what lost conversations left behind cannot be read");
    std::set<StoreName> nobodys(headless->records.begin(), headless->records.end());
    nobodys.insert(unlisted->begin(), unlisted->end());
    static_cast<void>(remove_nobodys({nobodys.begin(), nobodys.end()}));
    if (!store_.remove_again()) return;
    if (!headless->names.empty()) {
        const bool removed = shelf_.remove(headless->names).is_ok();
        store_.note("conversations whose heads are lost: " + std::to_string(headless->names.size()) +
                    (removed ? "; the rest of them is deleted" : "; the rest of them cannot be deleted now"));
    }
    if (unlisted->empty()) return;
    Manifest::Changes changes;
    for (const StoreName& record : *unlisted) Shelf::unmark(changes, record);
    static_cast<void>(store_.manifest().commit_removal(std::move(changes)));
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
    known.conversation = key.name;
    known.number = std::max(known.number, key.number);
    known.tenant = store_.tenant_name(key.name.tenant);
    return known;
}

bool KeptConversations::is_anothers(const StoreName& name, const ConversationName& conversation) const {
    const auto found = known_.find(name);
    return found != known_.end() && found->second.conversation != conversation;
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
    // Else its list would take the other's place, and a kill would leave records behind that nobody has.
    if (leaving_.contains(name)) static_cast<void>(clear_removed());
    const Result<size_t> bytes = put(conversation, name);
    if (bytes) return changed(*bytes);
    unwritten_.insert_or_assign(conversation.key.name, bytes.error());
    return bytes.error();
}

/// Among the changes that are committed next: how many bytes.
Result<size_t> KeptConversations::put(const ConversationToKeep& conversation, const StoreName& name) {
    if (newer_.contains(name)) return newer_wrote_it();
    if (is_anothers(name, conversation.key.name)) return anothers_name();
    Known& known = this->known(conversation.key, name);
    if (conversation.fork_of) {
        begin_fork(conversation, name);
    } else if (conversation.tokens_left) {  // rounds of it have gone, also such as are still on their way to the disk
        known.cut(conversation.key.cuts, *conversation.tokens_left);
        const auto left = static_cast<size_t>(*conversation.tokens_left);
        shorten_path(name, left);
        for (const StoreName& record : std::set<StoreName>(owners_.records_of(name))) {
            const StoredRecord* const found = store_.index().find(record);
            if (found != nullptr && end_of(*found) <= *conversation.tokens_left) continue;
            owners_.remove(name, record);
            gone_.push_back(record);
        }
    }
    const std::set<StoreName>& records = owners_.records_of(name);
    RONDO_TRY(shelf_.put(changes_, name, known.tenant, conversation.head, conversation.body,
                         std::vector<StoreName>(records.begin(), records.end())));
    known.on_shelf = true;
    changing_.insert(name);
    relisted_.erase(name);
    return conversation.head.size() + conversation.body.size() + records.size() * sizeof(StoreName);
}

/// Of its origin's records it has those that hold what it begins with, and not others that are as long: of prompts that
/// were cancelled, of rounds that were taken back. Those that are still on their way to the disk will be its own, too.
void KeptConversations::begin_fork(const ConversationToKeep& fork, const StoreName& name) {
    shorten_path(name, 0);  // of another fork of that name
    Path path{fork.ids, fork.methods, {}};
    const RecordIndex::Border begin{name_of_space(fork.key.name.tenant), Exactness::exact};
    for (const LayerGroup group : layer_groups) path.ends[store_.names(group, {})(begin)] = begin.prefix;
    const auto origin = known_.find(name_of(*fork.fork_of));
    if (origin == known_.end() || origin->second.conversation != *fork.fork_of) return;
    std::vector<const StoredRecord*> records;
    for (const StoreName& record : owners_.records_of(origin->first))
        if (const StoredRecord* const found = store_.index().find(record)) records.push_back(found);
    std::ranges::sort(records, {}, &StoredRecord::tokens_before);
    for (const StoredRecord* const record : records)
        if (is_on(path, *record)) owners_.add(name, record->name);
    note_fork({{origin->first, origin->second.number}, {name, known_[name].number}, std::move(path)});
}

/// The rounds of an origin are on the disk seconds after they were said, so the last forks are enough. A fork that is
/// noted no more does not own a round that its origin writes later: that round goes with the origin, and the fork
/// computes it again.
void KeptConversations::note_fork(Fork fork) {
    forks_.push_back(std::move(fork));
    if (forks_.size() > forks_max) forks_.pop_front();
}

/// Of what that fork began with, so many tokens are still its own.
void KeptConversations::shorten_path(const StoreName& name, size_t tokens) {
    for (Fork& fork : forks_) {
        if (fork.self.first != name || fork.path.ids.size() <= tokens) continue;
        fork.path.ids.resize(tokens);
        fork.path.ids.shrink_to_fit();
    }
}

/// A record is named by all ids up to its end. What it stands behind has been looked at before.
bool KeptConversations::is_on(Path& path, const StoredRecord& record) const {
    const auto before = path.ends.find(record.before);
    if (before == path.ends.end() || end_of(record) > std::ssize(path.ids)) return false;
    const std::span<const int32_t> own(path.ids.data() + record.tokens_before, static_cast<size_t>(record.tokens));
    const RecordIndex::Border end{name_of_round(before->second, own), record.exactness};
    const auto is_by = [&](std::string_view method) { return store_.names(record.group, method)(end) == record.name; };
    if (!is_by({}) && std::ranges::none_of(path.methods, is_by)) return false;
    path.ends[record.name] = end.prefix;
    return true;
}

/// Not more at a time than a manifest's log should have.
Status KeptConversations::changed(size_t bytes) {
    constexpr size_t bytes_max = size_t{4} << 20;
    ++changed_;
    changed_bytes_ += bytes;
    return changed_bytes_ > bytes_max ? commit() : Status::ok();
}

/// Read by a session that counts from 0 again how often rounds went.
Result<std::vector<std::byte>> KeptConversations::body(const ConversationName& conversation) {
    const StoreName name = name_of(conversation);
    if (is_anothers(name, conversation)) return anothers_name();
    const bool changes = changing_.contains(name);
    // On a full disk what is there is read, whatever becomes of others' changes.
    if (const Status committed = commit(); !committed && changes) return committed.error();
    // What is on the disk then is the one that was removed.
    if (leaving_.contains(name) || unremoved_.contains(name))
        return make_error(ErrorCode::not_found, "the conversation was removed");
    if (const auto found = known_.find(name); found != known_.end()) found->second.cuts.clear();
    return shelf_.body(name);
}

Status KeptConversations::remove(const ConversationKey& key) {
    const StoreName name = name_of(key.name);
    unwritten_.erase(key.name);
    if (is_removed(name, key.number) || is_anothers(name, key.name)) return Status::ok();
    if (newer_.contains(name)) return newer_wrote_it();
    if (removed_.insert_or_assign(name, key.number).second) removed_in_order_.push_back(name);
    if (removed_in_order_.size() > removed_max) {
        removed_.erase(removed_in_order_.front());
        removed_in_order_.pop_front();
    }
    // A conversation that was never kept has nothing on the disk.
    const auto found = known_.find(name);
    if (found == known_.end()) return Status::ok();
    known_.erase(found);
    for (const StoreName& record : std::set<StoreName>(owners_.records_of(name))) {
        owners_.remove(name, record);
        orphans_.insert(record);
    }
    shorten_path(name, 0);
    changing_.erase(name);  // what it was to be is of no matter
    leaving_.insert(name);
    return Status::ok();
}

Status KeptConversations::clear_removed() {
    if (leaving_.empty()) return remove_again();
    static_cast<void>(commit());  // they go whether that was written or not, and what they gave up before
    static_cast<void>(remove_nobodys(std::exchange(gone_, {})));
    // What the disk refuses to remove leaves with those that leave next.
    const Status released = remove_nobodys({orphans_.begin(), orphans_.end()});
    orphans_.clear();
    unremoved_.insert(leaving_.begin(), leaving_.end());
    leaving_.clear();
    const Status removed = remove_again();
    return released ? removed : released;
}

/// Their records first: once the lists have gone a start would not know whose these are.
Status KeptConversations::remove_again() {
    if (unremoved_.empty()) return Status::ok();
    RONDO_TRY(store_.remove_again());
    RONDO_TRY(shelf_.remove(std::vector<StoreName>(unremoved_.begin(), unremoved_.end())));
    unremoved_.clear();
    return Status::ok();
}

Status KeptConversations::tie(const ConversationKey& key, const StoreName& record) {
    const StoreName name = name_of(key.name);
    if (newer_.contains(name)) return Status::ok();  // its list may have it
    const bool is_gone = is_removed(name, key.number) || is_anothers(name, key.name);
    Known* const kept = is_gone ? nullptr : &known(key, name);
    const StoredRecord* const found = store_.index().find(record);
    if (found == nullptr) return Status::ok();
    if (kept != nullptr && kept->may_own(key.cuts, end_of(*found))) add_late(name, record);
    tie_to_forks({name, key.number}, *found);
    return is_nobodys(record) ? store_.remove(record) : Status::ok();
}

/// To the origin's forks, and to the forks of these: a fork is noted behind its origin.
void KeptConversations::tie_to_forks(const Numbered& origin, const StoredRecord& record) {
    std::set<Numbered> origins{origin};
    for (Fork& fork : forks_) {
        if (!origins.contains(fork.origin)) continue;
        origins.insert(fork.self);
        const auto known = known_.find(fork.self.first);
        if (known == known_.end() || known->second.number != fork.self.second) continue;
        if (is_on(fork.path, record)) add_late(fork.self.first, record.name);
    }
}

void KeptConversations::add_late(const StoreName& name, const StoreName& record) {
    if (!owners_.add(name, record) || !known_[name].on_shelf) return;
    relisted_.insert(name);
    ++changed_;
}

/// What a conversation has given up stays until that is on the disk.
bool KeptConversations::is_nobodys(const StoreName& record) const {
    return !owners_.has_owner(record) && std::ranges::find(gone_, record) == gone_.end();
}

/// Those of them that no conversation has, in one commit.
Status KeptConversations::remove_nobodys(std::vector<StoreName> records) {
    std::erase_if(records, [this](const StoreName& record) { return owners_.has_owner(record); });
    return store_.remove(records);
}

Status KeptConversations::forget_removed() {
    const Status committed = commit(), removed = clear_removed(), forgotten = store_.forget_removed();
    RONDO_TRY(committed);
    RONDO_TRY(removed);
    return forgotten;
}

}  // namespace rondo
