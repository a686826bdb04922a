#include "memory/store/record_index.hpp"

#include <algorithm>
#include <cstring>

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

bool RecordIndex::add(const StoredRecord& record, double credit) {
    const auto [at, added] = records_.try_emplace(record.name);
    if (!added) return false;
    Entry& entry = at->second;
    entry.record = record;
    entry.credit = credit;
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
    int64_t found = 0, most = 0;  // tokens of the two
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
            if (search.found + tokens <= search.most) continue;
            search.most = search.found + tokens;
            search.best = search.way;
            search.best.push_back({record, tokens});
        }
    }
}

std::vector<RecordIndex::Step> RecordIndex::way(const Border& from, std::span<const int32_t> ids, Exactness allowed,
                                                const NameOf& name_of) const {
    Search search{name_of, allowed};
    walk(search, from, ids);
    return search.best;
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

/// The same ids may be stored in several cuts: the way that leads furthest is the best.
void RecordIndex::walk(Search& search, const Border& from, std::span<const int32_t> ids) const {
    if (search.found > search.most) {
        search.best = search.way;
        search.most = search.found;
    }
    const auto sizes = sizes_.find(search.name_of(from));
    if (sizes == sizes_.end()) return;
    look_for_part(search, from, ids);
    PrefixName prefix = from.prefix;  // of so many whole blocks
    size_t whole = 0;
    for (const auto& [tokens, count] : sizes->second) {
        const auto end = static_cast<size_t>(tokens);
        if (end > ids.size()) return;
        for (; whole + kv_block_tokens <= end; whole += kv_block_tokens)
            prefix = name_of_block(prefix, ids.subspan(whole, kv_block_tokens));
        Border to{whole == end ? prefix : name_of_block(prefix, ids.subspan(whole, end - whole)), from.exactness};
        const StoredRecord* const next = next_of(search, from, to, tokens);
        if (next == nullptr) continue;
        search.way.push_back({next, tokens});
        search.found += tokens;
        walk(search, to, ids.subspan(end));
        search.found -= tokens;
        search.way.pop_back();
    }
}

void RecordIndex::use(const StoreName& name, int64_t now) {
    for (auto at = records_.find(name); at != records_.end(); at = records_.find(at->second.record.before)) {
        at->second.record.read = true;
        at->second.record.used_at = std::max(at->second.record.used_at, now);
        set_credit(at->second, value_of(at->second.record));
    }
}

bool RecordIndex::refer(const StoreName& name, int32_t more) {
    const auto found = records_.find(name);
    if (found == records_.end()) return false;
    found->second.record.references += more;
    return true;
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

RecordIndex::Taken RecordIndex::take(const StoreName& name) {
    const Entry& entry = records_.at(name);
    Taken taken{entry.record, entry.credit};
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
