#include "memory/store/entry_judge.hpp"

#include <span>
#include <string>
#include <utility>

#include "memory/store/manifest_keys.hpp"

namespace rondo {

bool EntryJudge::is_foreign(const ManifestEntry& entry) const {
    return entry.version != ManifestEntry::version_now || (kind_ && entry.kind != *kind_);
}

JudgedEntry EntryJudge::judge(std::string_view key, std::string_view value) const {
    using Is = JudgedEntry::Is;
    auto entry = read_stored_record(std::as_bytes(std::span(value)));
    if (!entry || entry->record.name != store::name_in(key)) {
        JudgedEntry broken{Is::broken, "the record's entry in the manifest is damaged", {}};
        broken.entry.record.name = store::name_in(key);
        return broken;
    }
    const StoredRecord& record = entry->record;
    const bool has_room = entry->version != ManifestEntry::version_now ||
                          RecordHeader::header_bytes(static_cast<size_t>(record.tokens),
                                                     static_cast<size_t>(record.layers)) <= record.place.bytes;
    if (!has_room) return {Is::broken, "a stored record is smaller than its header must be", std::move(*entry)};
    const Is is = is_foreign(*entry) ? Is::foreign : Is::whole;
    return {is, "", std::move(*entry)};
}

Status EntryJudge::judge_all(const Manifest& manifest, const std::function<void(JudgedEntry)>& told) const {
    return manifest.each(std::string(1, store::record_letter), [&](std::string_view key, std::string_view value) {
        told(judge(key, value));
        return Status::ok();
    });
}

const char* PlaceJudge::why_not(const RecordPlace& place, uint64_t end) {
    if (!Segments::fits(place, end)) return "the record does not lie within its segment";
    if (place.segment == last_.segment && place.offset < last_.offset + last_.bytes)
        return "the record lies in another one";
    last_ = place;
    return nullptr;
}

}  // namespace rondo
