#include "memory/store/store_survey.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "memory/store/entry_judge.hpp"
#include "memory/store/folder_key.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/record_seal.hpp"
#include "memory/store/segment_reader.hpp"
#include "memory/store/shelf.hpp"

namespace rondo {

namespace {

/// Goes through a store in three steps, and judges as a start of the store would.
class Surveyor {
public:
    Surveyor(const SurveyOptions& options, const std::optional<StoreKeys>& keys, const StoreFolder& folder,
             Manifest& manifest)
        : options_(options), keys_(keys), folder_(folder), manifest_(manifest) {}

    Status read_entries();
    Status look_into_segments();
    Status look_at_shelf();
    StoreSurvey take() { return std::move(survey_); }

private:
    using Entries = std::span<const JudgedEntry>;

    Status look_into(const SegmentReader& reader, const std::string& name, Entries entries);
    Status prove(const SegmentReader& reader, const Result<Segments::Salt>& salt, const StoredRecord& record,
                 bool& sealed);
    void count(const ManifestEntry& entry);
    void damaged(StoreSurvey::Thing thing, const StoreName& name, std::string why) {
        survey_.damaged.push_back({thing, name, std::move(why)});
    }

    const SurveyOptions& options_;
    const std::optional<StoreKeys>& keys_;
    const StoreFolder& folder_;
    Manifest& manifest_;
    StoreSurvey survey_;
    std::vector<JudgedEntry> entries_;  // by place
    uint64_t bytes_ = 0, bytes_done_ = 0;
};

std::pair<uint64_t, uint64_t> place_of(const JudgedEntry& judged) {
    return {judged.entry.record.place.segment, judged.entry.record.place.offset};
}

uint64_t segment_of(const JudgedEntry& judged) {
    return judged.entry.record.place.segment;
}

Status prove_all_of(const StoreName& conversation, Shelf& shelf) {
    RONDO_TRY(shelf.head(conversation));
    RONDO_TRY(shelf.body(conversation));
    RONDO_TRY(shelf.records(conversation));
    return Status::ok();
}

Status Surveyor::read_entries() {
    const EntryJudge judge(std::nullopt);
    RONDO_TRY(judge.judge_all(manifest_, [this](JudgedEntry judged) {
        const StoredRecord& record = judged.entry.record;
        if (judged.is == JudgedEntry::Is::broken) return damaged(StoreSurvey::Thing::record, record.name, judged.why);
        bytes_ += record.place.bytes;
        entries_.push_back(std::move(judged));
    }));
    std::ranges::sort(entries_, {}, place_of);
    return Status::ok();
}

/// One file is open at a time: a store may have more than a process may open.
Status Surveyor::look_into_segments() {
    RONDO_ASSIGN(const std::vector<std::string> names, folder_.names());
    std::set<uint64_t> found;
    for (const std::string& name : names) {
        const uint64_t segment = Segments::number_of(name);
        if (segment == 0) continue;
        found.insert(segment);
        RONDO_ASSIGN(const SegmentReader reader, SegmentReader::open(folder_, segment));
        const auto own = std::ranges::equal_range(entries_, segment, {}, segment_of);
        RONDO_TRY(look_into(reader, name, {own.begin(), own.end()}));
    }
    for (const JudgedEntry& judged : entries_)
        if (!found.contains(segment_of(judged)))
            damaged(StoreSurvey::Thing::record, judged.entry.record.name, "the record's segment is missing");
    return Status::ok();
}

/// A segment is written by one process, which seals all of its records or none: without `verify` one says it for all.
Status Surveyor::look_into(const SegmentReader& reader, const std::string& name, Entries entries) {
    StoreSurvey::Segment segment{name, reader.file_bytes(), reader.disk_bytes(), disk_alignment, 0, false};
    const auto salt = reader.salt();
    PlaceJudge judge;
    for (const JudgedEntry& judged : entries) {
        const StoredRecord& record = judged.entry.record;
        if (const char* const wrong = judge.why_not(record.place, reader.file_bytes()); wrong != nullptr) {
            damaged(StoreSurvey::Thing::record, record.name, wrong);
            continue;
        }
        ++segment.records;
        segment.used_bytes += record.place.bytes;
        count(judged.entry);
        bool sealed = segment.sealed;
        if (judged.is == JudgedEntry::Is::foreign) continue;
        if (options_.verify || segment.records == 1 || !salt) RONDO_TRY(prove(reader, salt, record, sealed));
        segment.sealed = segment.sealed || sealed;
        survey_.sealed += sealed ? 1 : 0;
    }
    survey_.segments.push_back(std::move(segment));
    return Status::ok();
}

void Surveyor::count(const ManifestEntry& entry) {
    for (StoreSurvey::Sum* sum :
         {&survey_.all, &survey_.by_kind[entry.kind], &survey_.by_tenant[entry.record.tenant]}) {
        ++sum->records;
        sum->bytes += entry.record.place.bytes;
        sum->tokens += entry.record.tokens;
    }
}

/// Says whether the record is sealed; and with `verify` all that there is to prove is proved.
Status Surveyor::prove(const SegmentReader& reader, const Result<Segments::Salt>& salt, const StoredRecord& record,
                       bool& sealed) {
    const auto header = reader.header_of(record);
    sealed = header && SegmentReader::is_sealed(header->span());
    if (sealed && !salt) {
        damaged(StoreSurvey::Thing::record, record.name, "the header of the record's segment is damaged");
        return Status::ok();
    }
    if (!options_.verify) return Status::ok();
    bytes_done_ += record.place.bytes;
    if (options_.progress) options_.progress(static_cast<double>(bytes_done_) / static_cast<double>(bytes_));
    if (sealed && !keys_) return Status::ok();
    std::optional<SealKey> key;
    if (sealed) {
        RONDO_ASSIGN(const SealKey made, store::key_of_records(*keys_, *salt, record.tenant));
        key.emplace(made);
    }
    const Status proved = header ? reader.prove(record, header->span(), key ? &*key : nullptr) : header.status();
    if (proved)
        ++survey_.proved;
    else
        damaged(StoreSurvey::Thing::record, record.name, proved.error().message);
    return Status::ok();
}

/// What is plain is proved by its checksum though there are keys: who asks wants to know whether it is whole.
Status Surveyor::look_at_shelf() {
    const std::optional<StoreKeys> none;
    Shelf plain(manifest_, none), sealed(manifest_, keys_);
    return manifest_.each(std::string(1, store::head_letter), [&](std::string_view key, std::string_view value) {
        const bool is_sealed = Shelf::is_sealed(value);
        ++survey_.conversations;
        survey_.conversations_sealed += is_sealed ? 1 : 0;
        if (!options_.verify || (is_sealed && !keys_)) return Status::ok();
        const StoreName name = store::name_in(key);
        const Status proved = prove_all_of(name, is_sealed ? sealed : plain);
        if (proved)
            ++survey_.proved;
        else if (proved.error().code != ErrorCode::unsupported)  // who wrote it can prove it
            damaged(StoreSurvey::Thing::conversation, name, proved.error().message);
        return Status::ok();
    });
}

}  // namespace

Result<StoreSurvey> survey_store(const SurveyOptions& options) {
    RONDO_ASSIGN(const StoreFolder folder, StoreFolder::open_existing(options.path));
    RONDO_ASSIGN(const std::unique_ptr<Manifest> manifest, Manifest::open_to_read(options.path + "/manifest"));
    std::optional<StoreKeys> keys;
    RONDO_ASSIGN(const bool has_key, folder.has(FolderKey::file_name));
    if (has_key && options.keys) {
        RONDO_ASSIGN(const StoreKeys own, FolderKey::read(folder, *options.keys));
        keys.emplace(own);
    }
    Surveyor surveyor(options, keys, folder, *manifest);
    RONDO_TRY(surveyor.read_entries());
    RONDO_TRY(surveyor.look_into_segments());
    RONDO_TRY(surveyor.look_at_shelf());
    return surveyor.take();
}

}  // namespace rondo
