#include "memory/store/records_at_start.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "memory/store/byte_io.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/stored_record.hpp"

namespace rondo {

namespace {

/// What is found, and what is lost, while the manifest is read.
class TakingOver {
public:
    TakingOver(Manifest& manifest, Segments& segments, uint64_t kind, bool has_keys)
        : manifest_(manifest), segments_(segments), kind_(kind), has_keys_(has_keys) {}

    Status read_epochs();
    Status read_entries();
    /// Where each of them lies. What lies in another one is lost.
    std::vector<RecordPlace> add_records();
    Status remove_lost();
    RecordsAtStart take() { return std::move(made_); }

private:
    bool is_usable(const ManifestEntry& entry, bool foreign);
    void lose(const StoreName& name) {
        ++made_.damaged;
        lost_.push_back(name);
    }

    Manifest& manifest_;
    Segments& segments_;
    const uint64_t kind_;
    const bool has_keys_;
    RecordsAtStart made_;
    std::vector<StoredRecord> found_;
    std::vector<StoreName> lost_;
};

Status TakingOver::read_epochs() {
    return manifest_.each(std::string(1, store::epoch_letter), [this](std::string_view key, std::string_view value) {
        RecordReader in(std::as_bytes(std::span(value)));
        made_.records.set_epoch(store::name_in(key), in.take<uint64_t>());
        return Status::ok();
    });
}

/// Damaged entries are lost; those of other kinds of KV and of other versions stay, and are the first to go.
Status TakingOver::read_entries() {
    return manifest_.each(std::string(1, store::record_letter), [this](std::string_view key, std::string_view value) {
        auto read = read_stored_record(std::as_bytes(std::span(value)));
        const bool foreign = read && (read->kind != kind_ || read->version != ManifestEntry::version_now);
        if (!read || read->record.name != store::name_in(key) || !is_usable(*read, foreign)) {
            lose(store::name_in(key));
            return Status::ok();
        }
        if (foreign) {
            ++made_.foreign;
            read->record.saved_seconds = 0.0;
        }
        found_.push_back(read->record);
        return Status::ok();
    });
}

/// Where the disk does not read what a segment's keys come from, its records stay: it may be read later.
bool TakingOver::is_usable(const ManifestEntry& entry, bool foreign) {
    const StoredRecord& record = entry.record;
    if (!segments_.is_within(record.place) || made_.records.is_forgotten(record)) return false;
    const bool is_known = entry.version == ManifestEntry::version_now;
    if (is_known && RecordHeader::header_bytes(static_cast<size_t>(record.tokens), static_cast<size_t>(record.layers)) >
                        record.place.bytes)
        return false;
    const uint64_t segment = record.place.segment;
    return foreign || !has_keys_ || segments_.has_unread_salt(segment) || segments_.salt(segment);
}

std::vector<RecordPlace> TakingOver::add_records() {
    const auto place_of = [](const StoredRecord& record) {
        return std::pair(record.place.segment, record.place.offset);
    };
    std::ranges::sort(found_, {}, place_of);
    std::vector<RecordPlace> places;
    for (const StoredRecord& record : found_) {
        const bool overlaps = !places.empty() && places.back().segment == record.place.segment &&
                              places.back().offset + places.back().bytes > record.place.offset;
        if (overlaps || !made_.records.add(record)) {
            lose(record.name);
            continue;
        }
        places.push_back(record.place);
    }
    return places;
}

Status TakingOver::remove_lost() {
    Manifest::Changes changes;
    for (const StoreName& name : lost_) changes.remove(store::key_of(store::record_letter, name));
    return lost_.empty() ? Status::ok() : manifest_.commit_removal(std::move(changes));
}

}  // namespace

Result<RecordsAtStart> records_at_start(Manifest& manifest, Segments& segments, uint64_t kind, bool has_keys) {
    TakingOver taking_over(manifest, segments, kind, has_keys);
    RONDO_TRY(taking_over.read_epochs());
    RONDO_TRY(taking_over.read_entries());
    std::vector<RecordPlace> places = taking_over.add_records();
    RONDO_TRY(taking_over.remove_lost());
    RONDO_TRY(segments.keep_only(std::move(places)));
    return taking_over.take();
}

}  // namespace rondo
