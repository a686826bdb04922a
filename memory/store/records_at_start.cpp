#include "memory/store/records_at_start.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/store/entry_judge.hpp"
#include "memory/store/manifest_keys.hpp"

namespace rondo {

namespace {

/// What is found, and what is lost, while the manifest is read.
class TakingOver {
public:
    TakingOver(Manifest& manifest, Segments& segments, uint64_t kind, bool has_keys)
        : manifest_(manifest), segments_(segments), kind_(kind), has_keys_(has_keys) {}

    Status read_entries();
    /// Where each of them lies. What lies in another one is lost.
    std::vector<RecordPlace> add_records();
    Status remove_lost();
    RecordsAtStart take() { return std::move(made_); }

private:
    bool can_be_read(const JudgedEntry& judged);
    void lose(const StoreName& name) {
        ++made_.damaged;
        lost_.push_back(name);
    }

    Manifest& manifest_;
    Segments& segments_;
    const uint64_t kind_;
    const bool has_keys_;
    RecordsAtStart made_;
    std::vector<JudgedEntry> found_;
    std::vector<StoreName> lost_;
};

Status TakingOver::read_entries() {
    return EntryJudge(kind_).judge_all(manifest_, [this](JudgedEntry judged) {
        if (judged.is == JudgedEntry::Is::broken) return lose(judged.entry.record.name);
        found_.push_back(std::move(judged));
    });
}

/// Its segment is there, and so are its keys. Where the disk does not read what these come from, the record stays: it
/// may be read later.
bool TakingOver::can_be_read(const JudgedEntry& judged) {
    const uint64_t segment = judged.entry.record.place.segment;
    if (!segments_.exists(segment)) return false;
    const bool needs_keys = has_keys_ && judged.is != JudgedEntry::Is::foreign;
    return !needs_keys || segments_.has_unread_salt(segment) || segments_.salt(segment);
}

std::vector<RecordPlace> TakingOver::add_records() {
    const auto place_of = [](const JudgedEntry& judged) {
        const RecordPlace& place = judged.entry.record.place;
        return std::pair(place.segment, place.offset);
    };
    std::ranges::sort(found_, {}, place_of);
    std::vector<RecordPlace> places;
    PlaceJudge judge;
    for (JudgedEntry& judged : found_) {
        StoredRecord& record = judged.entry.record;
        const bool is_foreign = judged.is == JudgedEntry::Is::foreign;
        if (is_foreign) record.saved_seconds = 0.0;
        const uint64_t end = segments_.end_of(record.place.segment);
        if (!can_be_read(judged) || judge.why_not(record.place, end) != nullptr || !made_.records.add(record)) {
            lose(record.name);
            continue;
        }
        if (is_foreign) ++made_.foreign;
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
    RONDO_TRY(taking_over.read_entries());
    std::vector<RecordPlace> places = taking_over.add_records();
    RONDO_TRY(taking_over.remove_lost());
    RONDO_TRY(segments.keep_only(std::move(places)));
    return taking_over.take();
}

}  // namespace rondo
