#include "memory/store/record_index.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace rondo {

size_t RecordIndex::Hash::operator()(const StoreName& name) const noexcept {
    size_t hash = 0;
    std::memcpy(&hash, name.data(), sizeof(hash));
    return hash;
}

/// What a byte of it saves. What has no use at all goes first.
double RecordIndex::value_of(const StoredRecord& record) const {
    return age_ + record.saved_seconds / static_cast<double>(std::max<uint64_t>(record.place.bytes, 1));
}

void RecordIndex::leaf(const Entry& entry, bool is) {
    auto& leaves = tenants_[entry.record.tenant].leaves;
    if (is) {
        leaves.emplace(entry.credit, entry.record.name);
    } else {
        leaves.erase({entry.credit, entry.record.name});
    }
}

void RecordIndex::set_credit(Entry& entry, double credit) {
    if (entry.behind == 0) leaf(entry, false);
    entry.credit = credit;
    if (entry.behind == 0) leaf(entry, true);
}

bool RecordIndex::insert(const Taken& added) {
    const StoredRecord& record = added.record;
    const auto [at, is_new] = records_.try_emplace(record.name);
    if (!is_new) return false;
    Entry& entry = at->second;
    entry.record = record;
    entry.credit = added.credit;
    entry.told_at = added.told_at;
    const auto sizes = sizes_.find(record.name);
    if (sizes != sizes_.end())
        for (const auto& [size, count] : sizes->second) entry.behind += count;
    ++sizes_[record.before][record.tokens];
    for (const StoreName& waypoint : record.waypoints) through_[waypoint][record.before].insert(record.name);
    if (const auto before = records_.find(record.before); before != records_.end()) {
        if (before->second.behind == 0) leaf(before->second, false);
        ++before->second.behind;
    }
    Tenant& tenant = tenants_[record.tenant];
    tenant.bytes += record.place.bytes;
    ++tenant.records;
    bytes_ += record.place.bytes;
    if (entry.behind == 0) leaf(entry, true);
    return true;
}

bool RecordIndex::remove(const StoreName& name) {
    const auto found = records_.find(name);
    if (found == records_.end()) return false;
    const StoredRecord record = found->second.record;
    if (found->second.behind == 0) leaf(found->second, false);
    records_.erase(found);
    auto& sizes = sizes_[record.before];
    if (--sizes[record.tokens] == 0) sizes.erase(record.tokens);
    if (sizes.empty()) sizes_.erase(record.before);
    for (const StoreName& waypoint : record.waypoints) {
        auto& through = through_[waypoint];
        auto& those = through[record.before];
        those.erase(record.name);
        if (those.empty()) through.erase(record.before);
        if (through.empty()) through_.erase(waypoint);
    }
    if (const auto before = records_.find(record.before); before != records_.end()) {
        if (--before->second.behind == 0) leaf(before->second, true);
    }
    const auto tenant = tenants_.find(record.tenant);
    tenant->second.bytes -= record.place.bytes;
    if (--tenant->second.records == 0) tenants_.erase(tenant);
    bytes_ -= record.place.bytes;
    return true;
}

const StoredRecord* RecordIndex::find(const StoreName& name) const {
    const auto found = records_.find(name);
    return found == records_.end() ? nullptr : &found->second.record;
}

struct RecordIndex::Search {
    const NameOf& name_of;
    Exactness allowed;
    std::vector<Step> way = {}, best = {};
    int64_t found = 0, most = 0;          // tokens of the two
    std::optional<size_t> noted = {};     // so many steps of the way are the best, and are copied when one of them goes
    std::optional<Step> noted_part = {};  // and this behind them

    void note(int64_t tokens, std::optional<Step> part) {
        most = tokens;
        noted = way.size();
        noted_part = part;
    }
    void settle() {
        if (!noted) return;
        best.assign(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(*noted));
        if (noted_part) best.push_back(*noted_part);
        noted.reset();
    }
    void step(const Step& one) {
        way.push_back(one);
        found += one.tokens;
    }
    void step_back() {
        if (noted == way.size()) settle();
        found -= way.back().tokens;
        way.pop_back();
    }
};

/// A border on the way, and the sizes of what stands behind it that were not tried yet.
struct RecordIndex::Branch {
    Border from;
    std::span<const int32_t> ids;  // behind it
    std::map<int32_t, int32_t>::const_iterator next, end;
    PrefixName prefix;  // of so many whole blocks behind it
    size_t whole = 0;
};

namespace {

constexpr size_t blocks_a_waypoint = 8;

/// The last one is where who asks for all of it, but for the last token, stands.
bool is_waypoint(size_t blocks, size_t blocks_in_all) {
    return blocks % blocks_a_waypoint == 0 || blocks == 1 || blocks == 2 || blocks == 4 || blocks == blocks_in_all;
}

}  // namespace

std::vector<StoreName> RecordIndex::waypoints_of(const PrefixName& before, Exactness exactness,
                                                 std::span<const int32_t> ids, const NameOf& name_of) {
    std::vector<StoreName> waypoints;
    Border at{before, exactness};
    for (size_t blocks = 1; blocks * kv_block_tokens < ids.size(); ++blocks) {
        at.prefix = name_of_block(at.prefix, ids.subspan((blocks - 1) * kv_block_tokens, kv_block_tokens));
        if (is_waypoint(blocks, (ids.size() - 1) / kv_block_tokens)) waypoints.push_back(name_of(at));
    }
    return waypoints;
}

const StoredRecord* RecordIndex::find_through(const StoreName& waypoint, const StoreName& before) const {
    const auto found = through_.find(waypoint);
    if (found == through_.end()) return nullptr;
    const auto those = found->second.find(before);
    return those == found->second.end() ? nullptr : find(*those->second.begin());
}

/// The last place behind a border that some record goes through.
void RecordIndex::look_for_part(Search& search, const Border& from, std::span<const int32_t> ids) const {
    for (const Exactness exactness : {Exactness::exact, Exactness::sparse}) {
        if (exactness < from.exactness || exactness > search.allowed) continue;
        Border at{from.prefix, exactness};
        for (size_t blocks = 1; blocks * kv_block_tokens <= ids.size(); ++blocks) {
            at.prefix = name_of_block(at.prefix, ids.subspan((blocks - 1) * kv_block_tokens, kv_block_tokens));
            const size_t in_all = ids.size() / kv_block_tokens;
            if (!is_waypoint(blocks, in_all)) continue;
            const StoredRecord* const record = find_through(search.name_of(at), search.name_of(from));
            if (record == nullptr) break;  // what goes further has the places before it, too
            const auto tokens = static_cast<int32_t>(blocks * kv_block_tokens);
            if (search.found + tokens > search.most) search.note(search.found + tokens, Step{record, tokens});
        }
    }
}

std::vector<RecordIndex::Step> RecordIndex::way(const Border& from, std::span<const int32_t> ids, Exactness allowed,
                                                const NameOf& name_of) const {
    Search search{name_of, allowed};
    walk(search, from, ids);
    search.settle();
    return std::move(search.best);
}

/// What leads from a border to one so many tokens further, whose prefix is known: the exact one, or else the other.
const StoredRecord* RecordIndex::next_of(const Search& search, const Border& from, Border& to, int32_t tokens) const {
    for (const Exactness exactness : {Exactness::exact, Exactness::sparse}) {
        if (exactness < from.exactness || exactness > search.allowed) continue;
        to.exactness = exactness;
        const StoredRecord* const next = find(search.name_of(to));
        if (next != nullptr && next->tokens == tokens && next->before == search.name_of(from)) return next;
    }
    return nullptr;
}

bool RecordIndex::branch(Search& search, const Border& from, std::span<const int32_t> ids,
                         std::vector<Branch>& branches) const {
    if (search.found > search.most) search.note(search.found, std::nullopt);
    const auto sizes = sizes_.find(search.name_of(from));
    if (sizes == sizes_.end()) return false;
    look_for_part(search, from, ids);
    branches.push_back({from, ids, sizes->second.begin(), sizes->second.end(), from.prefix});
    return true;
}

/// The same ids may be stored in several cuts: the way that leads furthest is the best. A conversation may have more
/// rounds than a stack has room for.
void RecordIndex::walk(Search& search, const Border& from, std::span<const int32_t> ids) const {
    std::vector<Branch> branches;
    branch(search, from, ids, branches);
    while (!branches.empty()) {
        Branch& at = branches.back();
        if (at.next == at.end || static_cast<size_t>(at.next->first) > at.ids.size()) {
            branches.pop_back();
            if (!branches.empty()) search.step_back();
            continue;
        }
        const int32_t tokens = at.next++->first;
        const auto end = static_cast<size_t>(tokens);
        for (; at.whole + kv_block_tokens <= end; at.whole += kv_block_tokens)
            at.prefix = name_of_block(at.prefix, at.ids.subspan(at.whole, kv_block_tokens));
        const bool is_whole = at.whole == end;
        Border to{is_whole ? at.prefix : name_of_block(at.prefix, at.ids.subspan(at.whole, end - at.whole)),
                  at.from.exactness};
        const StoredRecord* const next = next_of(search, at.from, to, tokens);
        if (next == nullptr) continue;
        search.step({next, tokens});
        if (!branch(search, to, at.ids.subspan(end), branches)) search.step_back();
    }
}

std::vector<StoreName> RecordIndex::use(const StoreName& name, int64_t now, int64_t told_each) {
    std::vector<StoreName> untold;
    size_t left = records_.size();  // entries that somebody has changed may lead in a circle
    for (auto at = records_.find(name); at != records_.end() && left > 0;
         at = records_.find(at->second.record.before), --left) {
        Entry& entry = at->second;
        entry.record.read = true;
        entry.record.used_at = std::max(entry.record.used_at, now);
        set_credit(entry, value_of(entry.record));
        if (now - entry.told_at < told_each) continue;
        entry.told_at = now;
        untold.push_back(at->first);
    }
    return untold;
}

const StoredRecord* RecordIndex::next_to_go(const StoredRecord& record, const StoreName* tenant,
                                            const MayGo& may_go) const {
    const StoredRecord* next = nullptr;
    double credit = value_of(record);
    const auto look = [&](const Tenant& of) {
        for (const auto& [own, name] : of.leaves) {
            if (own > credit) return;
            const StoredRecord* const found = find(name);
            if (!may_go(*found)) continue;
            next = found;
            credit = own;
            return;
        }
    };
    if (tenant == nullptr) {
        for (const auto& [name, of] : tenants_) look(of);
    } else if (const auto found = tenants_.find(*tenant); found != tenants_.end()) {
        look(found->second);
    }
    return next;
}

/// Until the limit is kept without those who go. False: nobody else may go.
bool RecordIndex::take_out(const StoredRecord& record, const Limit& limit, const MayGo& may_go, Room& room) {
    while (limit.used - std::min(limit.used, room.bytes) > limit.most) {  // more may go than is missing
        const StoredRecord* const next = next_to_go(record, limit.tenant, may_go);
        if (next == nullptr) return false;
        room.bytes += next->place.bytes;
        room.taken.push_back(take(next->name));
    }
    return true;
}

RecordIndex::Room RecordIndex::make_room(const StoredRecord& record, std::span<const Limit> limits,
                                         const MayGo& may_go) {
    Room room;
    for (const Limit& limit : limits) {
        if (!take_out(record, limit, may_go, room)) {
            put_back(room);
            return {{}, 0, room.limits_kept};
        }
        ++room.limits_kept;
    }
    return room;
}

void RecordIndex::put_back(const Room& room) {
    for (auto one = room.taken.rbegin(); one != room.taken.rend(); ++one) insert(*one);
}

void RecordIndex::gone(const Room& room) {
    for (const Taken& one : room.taken) age_ = std::max(age_, one.credit);
}

RecordIndex::Taken RecordIndex::take(const StoreName& name) {
    const Entry& entry = records_.at(name);
    Taken taken{entry.record, entry.credit, entry.told_at};
    remove(name);
    return taken;
}

std::vector<StoreName> RecordIndex::unused_since(int64_t time) const {
    std::vector<StoreName> names;
    for (const auto& [name, entry] : records_)
        if (entry.record.used_at < time) names.push_back(name);
    return names;
}

uint64_t RecordIndex::bytes_of(const StoreName& tenant) const {
    const auto found = tenants_.find(tenant);
    return found == tenants_.end() ? 0 : found->second.bytes;
}

int64_t RecordIndex::records_of(const StoreName& tenant) const {
    const auto found = tenants_.find(tenant);
    return found == tenants_.end() ? 0 : found->second.records;
}

void RecordIndex::each(const std::function<void(const StoredRecord&)>& each) const {
    for (const auto& [name, entry] : records_) each(entry.record);
}

}  // namespace rondo
