#include "memory/store/stored_records.hpp"

#include <algorithm>

namespace rondo {

/// Another one of its name may have begun meanwhile, elsewhere.
void StoredRecords::end_writing(const StoredRecord& record) {
    const auto found = writing_.find(record.name);
    if (found != writing_.end() && found->second.record.place == record.place) writing_.erase(found);
}

uint64_t StoredRecords::bytes_on_their_way(const StoreName* tenant) const {
    uint64_t bytes = 0;
    for (const auto& [name, writing] : writing_)
        if (!writing.found && (tenant == nullptr || writing.record.tenant == *tenant))
            bytes += writing.record.place.bytes;
    return bytes;
}

bool StoredRecords::add(const StoredRecord& record) {
    if (!index_.add(record)) return false;
    const auto writing = writing_.find(record.name);
    if (writing != writing_.end() && writing->second.record.place == record.place) writing->second.found = true;
    return true;
}

bool StoredRecords::stands_before(const StoreName& name, const StoredRecord& begun) const {
    const auto is_before = [&](const auto& one) { return one.second.record.before == name; };
    return begun.before == name || std::ranges::any_of(writing_, is_before);
}

RecordIndex::Room StoredRecords::make_room(const StoredRecord& record, std::span<const RecordIndex::Limit> limits) {
    return index_.make_room(record, limits, [&](const StoredRecord& other) {
        return !readers_.contains(other.place) && !stands_before(other.name, record);
    });
}

std::set<uint64_t> StoredRecords::needed_segments(const StoredRecord& record) const {
    std::set<uint64_t> needed;
    const auto need = [&](const StoreName& name) {
        size_t left = index_.count();  // as in RecordIndex::use
        for (const StoredRecord* at = index_.find(name); at != nullptr && left > 0;
             at = index_.find(at->before), --left)
            needed.insert(at->place.segment);
    };
    need(record.before);
    for (const auto& [name, writing] : writing_) {
        needed.insert(writing.record.place.segment);
        need(writing.record.before);
    }
    for (const auto& [place, readers] : readers_) needed.insert(place.segment);
    return needed;
}

bool StoredRecords::leave(const StoreName& name) {
    const StoredRecord* const record = index_.find(name);
    if (record == nullptr) return false;
    leaving_.push_back(*record);
    index_.remove(leaving_.back().name);
    return true;
}

void StoredRecords::leave_unfound(const StoredRecord& record) {
    leaving_.push_back(record);
    end_writing(record);
}

bool StoredRecords::end_reading(const RecordPlace& place) {
    const auto found = readers_.find(place);
    if (--found->second.count > 0) return false;
    const bool let_go = found->second.let_go;
    readers_.erase(found);
    return let_go;
}

bool StoredRecords::let_go(const RecordPlace& place) {
    const auto found = readers_.find(place);
    if (found == readers_.end()) return true;
    found->second.let_go = true;
    return false;
}

void StoredRecords::use(const StoreName& name, int64_t now, int64_t told_each) {
    for (const StoreName& used : index_.use(name, now, told_each)) used_.push_back(used);
}

std::vector<StoredRecord> StoredRecords::take_used() {
    std::vector<StoredRecord> records;
    for (const StoreName& name : std::exchange(used_, {}))
        if (const StoredRecord* const record = index_.find(name); record != nullptr) records.push_back(*record);
    return records;
}

}  // namespace rondo
