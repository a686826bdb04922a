#include <algorithm>

#include "memory/store/byte_io.hpp"
#include "memory/store/kv_store.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/stored_record.hpp"

namespace rondo {

Status KvStore::load_epochs() {
    return manifest_->each(std::string(1, store::epoch_letter), [this](std::string_view key, std::string_view value) {
        RecordReader in(std::as_bytes(std::span(value)));
        records_.set_epoch(store::name_in(key), in.take<uint64_t>());
        return Status::ok();
    });
}

/// Damaged entries are lost; those of other kinds of KV and of other versions stay, and are the first to go.
Status KvStore::load_records(std::vector<StoredRecord>& records, std::vector<StoreName>& lost) {
    return manifest_->each(std::string(1, store::record_letter), [&](std::string_view key, std::string_view value) {
        auto read = read_stored_record(std::as_bytes(std::span(value)));
        const bool foreign = read && (read->kind != kind_ || read->version != ManifestEntry::version_now);
        if (!read || read->record.name != store::name_in(key) || !is_usable(*read, foreign)) {
            ++counts_.damaged;
            lost.push_back(store::name_in(key));
            return Status::ok();
        }
        if (foreign) {
            ++counts_.foreign;
            read->record.saved_seconds = 0.0;
        }
        records.push_back(read->record);
        return Status::ok();
    });
}

/// Where the disk does not read what a segment's keys come from, its records stay: it may be read later.
bool KvStore::is_usable(const ManifestEntry& entry, bool foreign) {
    const StoredRecord& record = entry.record;
    if (!segments_->is_within(record.place) || records_.is_forgotten(record)) return false;
    const bool is_known = entry.version == ManifestEntry::version_now;
    if (is_known && RecordHeader::header_bytes(static_cast<size_t>(record.tokens), static_cast<size_t>(record.layers)) >
                        record.place.bytes)
        return false;
    const uint64_t segment = record.place.segment;
    return foreign || !keys_ || segments_->has_unread_salt(segment) || segments_->salt(segment);
}

Status KvStore::load() {
    RONDO_TRY(load_epochs());
    if (const auto day = manifest_->get(store::day_key); day) written_today_ = WrittenToday(*day);
    std::vector<StoredRecord> records;
    std::vector<StoreName> lost;
    RONDO_TRY(load_records(records, lost));
    const auto place_of = [](const StoredRecord& record) {
        return std::pair(record.place.segment, record.place.offset);
    };
    std::ranges::sort(records, {}, place_of);
    std::vector<RecordPlace> places;
    for (const StoredRecord& record : records) {
        const bool overlaps = !places.empty() && places.back().segment == record.place.segment &&
                              places.back().offset + places.back().bytes > record.place.offset;
        if (overlaps || !records_.add(record)) {
            ++counts_.damaged;
            lost.push_back(record.name);
            continue;
        }
        places.push_back(record.place);
    }
    Manifest::Changes changes;
    for (const StoreName& name : lost) changes.remove(store::key_of(store::record_letter, name));
    if (!lost.empty()) RONDO_TRY(manifest_->commit_removal(std::move(changes)));
    return segments_->keep_only(std::move(places));
}

}  // namespace rondo
