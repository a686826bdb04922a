#include "memory/store/kv_store.hpp"

#include <algorithm>

#include "memory/store/byte_io.hpp"
#include "memory/store/folder_key.hpp"
#include "memory/store/kv_store_parts.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/record_seal.hpp"
#include "memory/store/records_at_start.hpp"
#include "memory/store/stored_record.hpp"

namespace rondo {

Result<std::unique_ptr<KvStore>> KvStore::open(Options options, DiskQueue& queue) {
    const std::optional<KeyFile> keys = std::exchange(options.keys, {});  // not needed for longer than this
    std::unique_ptr<KvStore> made(new KvStore(std::move(options)));
    RONDO_ASSIGN(StoreFolder folder, StoreFolder::open(made->options_.path));
    RONDO_TRY(folder.claim());
    made->folder_.emplace(std::move(folder));
    RONDO_ASSIGN(Manifest::Opened manifest, Manifest::open(made->folder_->path() + "/manifest"));
    made->manifest_ = std::move(manifest.manifest);
    RONDO_TRY(made->folder_->sync());  // the manifest may be new, and RocksDB does not sync its folder's name
    made->repaired_ = manifest.repaired;
    if (!manifest.note.empty()) made->notes_.push_back(std::move(manifest.note));
    RONDO_ASSIGN(const bool key_made, made->take_key(keys));  // before anything is removed
    RONDO_ASSIGN(made->segments_, Segments::open(*made->folder_, queue, made->options_.segments));
    RONDO_TRY(made->load());
    if (key_made) RONDO_TRY(made->say_what_is_not_read());
    return made;
}

KvStore::KvStore(Options options)
    : options_(std::move(options)), kind_(checksum_of_kind(options_.kind)), thread_(options_.post) {}

/// True: the folder had none.
Result<bool> KvStore::take_key(const std::optional<KeyFile>& file) {
    if (file) {
        RONDO_ASSIGN(FolderKey key, FolderKey::open(*folder_, *file));
        keys_.emplace(key.keys);
        if (!key.note.empty()) notes_.push_back(std::move(key.note));
        return key.made;
    }
    RONDO_ASSIGN(const bool sealed, folder_->has(FolderKey::file_name));
    if (sealed)
        notes_.push_back(options_.path +
                         ": what was sealed there is not read without memory.disk.key_file, and is not "
                         "deleted because of that");
    return false;
}

Status KvStore::load() {
    RONDO_ASSIGN(RecordsAtStart start, records_at_start(*manifest_, *segments_, kind_, keys_.has_value()));
    records_ = std::move(start.records);
    counts_.damaged = start.damaged;
    counts_.foreign = start.foreign;
    if (const auto day = manifest_->get(store::day_key); day) written_today_ = WrittenToday(*day);
    return Status::ok();
}

/// What was there before the folder had its key is plain, or sealed by keys that nobody here knows.
Status KvStore::say_what_is_not_read() {
    size_t conversations = 0;
    RONDO_TRY(manifest_->each(std::string(1, store::head_letter), [&](std::string_view, std::string_view) {
        ++conversations;
        return Status::ok();
    }));
    if (index().count() + conversations > 0)
        notes_.push_back(options_.path + ": what was written without this folder's key (records: " +
                         std::to_string(index().count()) + ", conversations: " + std::to_string(conversations) +
                         ") is not read with memory.disk.key_file, and is not deleted because of that");
    return Status::ok();
}

StoreName KvStore::tenant_name(const std::optional<StoreKeys>& keys, std::string_view tenant) {
    return store_name(keys, "tenant", std::as_bytes(std::span(tenant)));
}

RecordIndex::NameOf KvStore::names(LayerGroup group, std::string_view method) const {
    return [this, group, method = std::string(method)](const RecordIndex::Border& border) {
        RecordWriter out;
        out.put(border.prefix.low);
        out.put(border.prefix.high);
        out.put(kind_);
        out.put(static_cast<uint8_t>(group));
        if (border.exactness != Exactness::exact) out.put(std::as_bytes(std::span(method)));
        return store_name(keys_, "record", out.bytes());
    };
}

Result<SealKey> KvStore::key_of(const StoredRecord& record) const {
    RONDO_ASSIGN(const Segments::Salt salt, segments_->salt(record.place.segment));
    return store::key_of_records(*keys_, salt, record.tenant);
}

/// False: the disk refuses, and all are there as they were.
bool KvStore::let_go(const RecordIndex::Room& room) {
    Manifest::Changes changes;
    for (const auto& gone : room.taken) changes.remove(store::key_of(store::record_letter, gone.record.name));
    if (!room.taken.empty() && !manifest_->commit_removal(std::move(changes))) {
        records_.put_back(room);
        return false;
    }
    records_.gone(room);
    for (const RecordIndex::Taken& one : room.taken) {
        tell_gone(one.record.name);
        static_cast<void>(give_back(one.record.place));
        counts_.gone(one.record);
    }
    counts_.evicted += std::ssize(room.taken);
    return true;
}

void KvStore::tell_gone(const StoreName& name) const {
    for (const auto& tell : told_of_gone_) tell(name);
}

/// Of the tenant, of the store and of the disk, where `wanted` bytes must be free, and `free` are.
std::vector<RecordIndex::Limit> KvStore::limits_of(const StoredRecord& record, uint64_t most, uint64_t wanted,
                                                   uint64_t free) const {
    std::vector<RecordIndex::Limit> limits;
    if (options_.tenant_bytes_max > 0) {
        const uint64_t others = index().bytes_of(record.tenant) + records_.bytes_on_their_way(&record.tenant);
        limits.push_back({&record.tenant, others + record.place.bytes, options_.tenant_bytes_max});
    }
    if (!segments_->makes_holes()) return limits;
    limits.push_back({nullptr, segments_->bytes() + most, options_.bytes_max});
    limits.push_back({nullptr, wanted, free});
    return limits;
}

/// Where all who may go are not enough nobody goes.
KvStore::Refusal KvStore::make_room(const StoredRecord& record) {
    const uint64_t most = record.place.bytes + 2 * disk_alignment;  // it may begin a segment
    const auto free = folder_->bytes_free();
    if (!free) return Refusal::disk;
    if (options_.tenant_bytes_max > 0 && record.place.bytes > options_.tenant_bytes_max) return Refusal::quota;
    // What others took of the disk is asked back of what is stored.
    const uint64_t wanted = record.place.bytes + options_.bytes_free_min + manifest_->reserve_missing_bytes();
    const std::vector<RecordIndex::Limit> limits = limits_of(record, most, wanted, *free);
    const RecordIndex::Room room = records_.make_room(record, limits);
    if (room.limits_kept < limits.size())
        return limits[room.limits_kept].tenant != nullptr ? Refusal::quota : Refusal::no_room;
    if (!let_go(room) || segments_->has_uncleared()) return Refusal::disk;
    const uint64_t taken = segments_->bytes() + most;
    const uint64_t missing = std::max(taken - std::min(taken, options_.bytes_max), wanted - std::min(wanted, *free));
    return segments_->makes_holes() || missing == 0 ? Refusal::none : drop_segments(record, missing);
}

/// Where no holes can be made, space comes back with whole segments: the oldest go, whatever is in them. If that is not
/// enough none goes.
KvStore::Refusal KvStore::drop_segments(const StoredRecord& record, uint64_t bytes) {
    const std::set<uint64_t> needed = records_.needed_segments(record);
    std::set<uint64_t> going;
    uint64_t found = 0;
    for (const uint64_t segment : segments_->numbers()) {
        if (found >= bytes) break;
        if (needed.contains(segment)) continue;
        going.insert(segment);
        found += segments_->bytes_in(segment);
    }
    if (found < bytes) return Refusal::no_room;
    std::vector<StoreName> names;
    index().each([&](const StoredRecord& other) {
        if (going.contains(other.place.segment)) names.push_back(other.name);
    });
    Manifest::Changes changes;
    for (const StoreName& name : names) changes.remove(store::key_of(store::record_letter, name));
    if (!names.empty() && !manifest_->commit_removal(std::move(changes))) return Refusal::disk;
    for (const StoreName& name : names) {
        counts_.gone(*index().find(name));
        records_.drop(name);
        tell_gone(name);
    }
    counts_.evicted += std::ssize(names);
    bool all_went = true;
    for (const uint64_t segment : going) all_went = segments_->remove(segment).is_ok() && all_went;
    return all_went ? Refusal::none : Refusal::disk;
}

Status KvStore::give_back(const RecordPlace& place) {
    return records_.let_go(place) ? segments_->give_back(place) : Status::ok();
}

/// Each of the three is tried, whatever becomes of the others.
Status KvStore::forget_removed() {
    const Status removed = remove_again(), cleared = segments_->clear_all_again(),
                 forgotten = manifest_->forget_removed();
    RONDO_TRY(removed);
    RONDO_TRY(cleared);
    return forgotten;
}

void KvStore::use(const StoreName& name) {
    const int64_t told_each = std::min(WrittenToday::seconds_a_day, options_.unused_seconds_max / 4);
    records_.use(name, options_.now(), told_each);
}

Status KvStore::remove(std::span<const StoreName> names) {
    for (const StoreName& name : names)
        if (records_.leave(name)) tell_gone(records_.leaving().back().name);
    return remove_again();
}

Status KvStore::remove_again() {
    if (records_.leaving().empty()) return Status::ok();
    Manifest::Changes changes;
    for (const StoredRecord& record : records_.leaving())
        changes.remove(store::key_of(store::record_letter, record.name));
    RONDO_TRY(manifest_->commit_removal(std::move(changes)));
    Status given;
    for (const StoredRecord& record : records_.take_leaving()) {
        Status one = give_back(record.place);
        if (given) given = std::move(one);
    }
    return given;
}

/// Unless it has gone meanwhile, and another of its name has come.
void KvStore::damaged(const StoredRecord& record) {
    const StoredRecord* const found = index().find(record.name);
    if (found == nullptr || found->place != record.place) return;
    ++counts_.damaged;
    static_cast<void>(remove(record.name));
}

Status KvStore::expire() {
    const std::vector<StoreName> names = index().unused_since(options_.now() - options_.unused_seconds_max);
    counts_.expired += std::ssize(names);
    for (const StoreName& name : names) counts_.gone(*index().find(name));
    if (records_.has_used()) {
        Manifest::Changes changes;
        put_used(changes);
        static_cast<void>(manifest_->commit(std::move(changes)));  // a start after that takes them for older
    }
    static_cast<void>(segments_->clear_again());
    return remove(names);
}

}  // namespace rondo
