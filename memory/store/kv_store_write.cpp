#include <cassert>

#include "config/checked.hpp"
#include "memory/store/kv_store_parts.hpp"
#include "memory/store/manifest_keys.hpp"
#include "memory/store/record_seal.hpp"
#include "memory/store/stored_record.hpp"

namespace rondo {

namespace {

Error earlier_sync_failed() {
    return make_error(ErrorCode::io, "sync: an earlier one of this file failed");
}

}  // namespace

StoredRecord KvStore::record_of(const RecordHeader& header, double saved_seconds) const {
    StoredRecord record;
    record.name = header.name;
    record.before = header.before;
    record.tenant = header.tenant;
    record.group = header.group;
    record.exactness = header.exactness;
    record.tokens_before = header.tokens_before;
    record.tokens = static_cast<int32_t>(header.ids.size());
    record.layers = static_cast<int32_t>(header.layers.size());
    record.place.bytes = header.record_bytes();
    record.saved_seconds = saved_seconds;
    record.used_at = options_.now();
    return record;
}

KvStore::Begun KvStore::begin(RecordHeader header, double saved_seconds, std::vector<StoreName> waypoints) {
    assert(header.kind == options_.kind);
    header.lay_out();
    StoredRecord record = record_of(header, saved_seconds);
    record.waypoints = std::move(waypoints);
    const auto refused = [this](Refusal refusal) {
        ++counts_.refused[static_cast<size_t>(refusal)];
        return Begun{nullptr, refusal};
    };
    if (records_.has_name(record.name)) return refused(Refusal::stored_already);
    if (record.place.bytes + 2 * disk_alignment > options_.bytes_max) return refused(Refusal::too_large);
    const uint64_t today =
        record.place.bytes + written_today_.bytes(options_.now()) + records_.bytes_on_their_way(nullptr);
    if (options_.written_a_day_max > 0 && today > options_.written_a_day_max) return refused(Refusal::written_enough);
    // What leaves may have its name; and a disk that lets nothing go has no room.
    if (!remove_again() || !segments_->clear_again()) return refused(Refusal::disk);
    if (const Refusal refusal = make_room(record); refusal != Refusal::none) return refused(refusal);
    const auto place = segments_->append(record.place.bytes);
    if (!place) return refused(Refusal::disk);
    record.place = *place;
    // Whoever lets go of it first, on whatever thread: its space comes back here.
    const WritingPtr writing(new Writing{record, std::move(header)}, [thread = thread_, this](Writing* ended) {
        thread.run([this, owned = std::shared_ptr<Writing>(ended)] {
            give_up(*owned);
            if (!owned->keeps_space) static_cast<void>(give_back(owned->record.place));
        });
    });
    records_.begin_writing(record);
    if (keys_) {
        auto key = key_of(record);
        if (!key) return refused(Refusal::disk);
        writing->key.emplace(*key);
    }
    return {writing, Refusal::none};
}

void KvStore::give_up(const Writing& writing) {
    records_.end_writing(writing.record);
}

void KvStore::write_layer(const WritingPtr& writing, size_t layer, std::span<std::byte> bytes, Done done) {
    RecordHeader& header = writing->header;
    assert(layer < header.layers.size() && bytes.size() == round_up<uint64_t>(header.layer_bytes(), disk_alignment));
    done = thread_.handing_over<Status>([this, writing, done = std::move(done)](const Status& end) {
        if (!end && !std::exchange(writing->failed, true)) ++counts_.refused[static_cast<size_t>(Refusal::disk)];
        done(end);
    });
    const auto proof = store::seal_layer(writing->record, layer, writing->sealed_by(), bytes);
    if (!proof) return done(proof.error());
    header.layers[layer].proof = *proof;
    counts_.bytes_written += bytes.size();
    segments_->write(writing->record.place, header.layers[layer].offset, bytes,
                     [writing, done = std::move(done)](Status end) { done(std::move(end)); });
}

/// Records that will be found together.
struct KvStore::Finishing {
    std::vector<WritingPtr> writings;
    Done done;
    KvStore& store;
    size_t under_way = 0;  // headers, or files that are synced
    Status first = {};     // that went wrong

    /// Of whom this is true nothing is found, nor of those that come behind him.
    void fail(const Status& status, const std::function<bool(const Writing&)>& who) {
        if (first) first = status;
        std::set<StoreName> lost;
        const auto is_lost = [&](const WritingPtr& writing) {
            if (!who(*writing) && !lost.contains(writing->record.before)) return false;
            lost.insert(writing->record.name);
            store.give_up(*writing);
            return true;
        };
        store.count_refused_by_disk(static_cast<int64_t>(std::erase_if(writings, is_lost)));
    }
};

void KvStore::finish(std::vector<WritingPtr> writings, Done done) {
    const auto finishing = std::make_shared<Finishing>(Finishing{std::move(writings), std::move(done), *this});
    for (const WritingPtr& writing : std::vector(finishing->writings)) {
        auto sealed = store::seal_header(writing->record, writing->header, writing->sealed_by());
        if (sealed)
            writing->bytes = std::move(*sealed);
        else
            finishing->fail(sealed.error(), [&](const Writing& one) { return &one == writing.get(); });
    }
    write_headers(finishing);
}

void KvStore::write_headers(const FinishingPtr& finishing) {
    finishing->under_way = finishing->writings.size();
    if (finishing->writings.empty()) return thread_.handing_over<Status>(finishing->done)(finishing->first);
    for (const WritingPtr& writing : std::vector(finishing->writings)) {
        counts_.bytes_written += writing->bytes.size();
        const Done written = thread_.handing_over<Status>([this, finishing, writing](const Status& end) {
            if (!end) finishing->fail(end, [&](const Writing& one) { return &one == writing.get(); });
            if (--finishing->under_way == 0) sync(finishing);
        });
        segments_->write(writing->record.place, 0, writing->bytes.span(),
                         [written](Status end) { written(std::move(end)); });
    }
}

void KvStore::sync(const FinishingPtr& finishing) {
    // Linux tells of a write that failed once, whoever asks first; the next sync of the same file succeeds.
    const auto is_unsynced = [this](const Writing& one) { return unsynced_.contains(one.record.place.segment); };
    if (std::ranges::any_of(finishing->writings, [&](const WritingPtr& one) { return is_unsynced(*one); }))
        finishing->fail(earlier_sync_failed(), is_unsynced);
    std::map<uint64_t, RecordPlace> files;
    for (const WritingPtr& writing : finishing->writings)
        files.emplace(writing->record.place.segment, writing->record.place);
    finishing->under_way = files.size();
    if (files.empty()) return finishing->done(finishing->first);
    for (const auto& [segment, place] : files) {
        segments_->sync(place, thread_.handing_over<Status>([this, finishing, segment = segment](const Status& end) {
            if (end && unsynced_.contains(segment)) {
                finishing->fail(earlier_sync_failed(),
                                [&](const Writing& one) { return one.record.place.segment == segment; });
            } else if (!end) {
                finishing->fail(end, [&](const Writing& one) { return one.record.place.segment == segment; });
                segments_->leave(segment);
                unsynced_.insert(segment);
            }
            if (--finishing->under_way > 0) return;
            commit(*finishing);
            finishing->done(finishing->first);
        }));
    }
}

void KvStore::put(Manifest::Changes& changes, const StoredRecord& record) const {
    const std::vector<std::byte> value = write_stored_record({record, kind_});
    changes.put(store::key_of(store::record_letter, record.name), store::text_of(value));
}

/// So that a start knows what was used lately.
void KvStore::put_used(Manifest::Changes& changes) {
    for (const StoredRecord& record : records_.take_used()) put(changes, record);
}

/// The bytes are durable; now they are found.
void KvStore::commit(Finishing& finishing) {
    if (finishing.writings.empty()) return;
    Manifest::Changes changes;
    uint64_t bytes = 0;
    std::vector<StoreName> names;
    for (const WritingPtr& writing : finishing.writings) {
        put(changes, writing->record);
        names.push_back(writing->record.name);
        bytes += writing->record.place.bytes;
    }
    for (const auto& tell : told_of_found_) tell(changes, names);
    written_today_.add(bytes, options_.now());
    changes.put(store::day_key, written_today_.value());
    put_used(changes);
    const Status committed = manifest_->commit(std::move(changes));
    for (const WritingPtr& writing : finishing.writings) {
        if (committed) {
            writing->keeps_space = records_.add(writing->record);
            ++counts_.written;
        } else {
            records_.leave_unfound(writing->record);  // the manifest may have it, and then it needs its space
            writing->keeps_space = true;
            count_refused_by_disk(1);
        }
    }
    if (!committed && finishing.first) finishing.first = committed;
}

}  // namespace rondo
