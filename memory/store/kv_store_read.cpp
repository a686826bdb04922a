#include <atomic>
#include <cassert>
#include <mutex>

#include "config/checked.hpp"
#include "memory/store/kv_store_parts.hpp"
#include "memory/store/record_seal.hpp"

namespace rondo {

namespace {

constexpr size_t piece_bytes = size_t{1} << 20;  // read at a time, so that a disk has enough to do

/// Bytes of a record that are asked of the disk.
struct Asked {
    Segments* segments = nullptr;
    StoreThread thread;
    RecordPlace place;
    uint64_t at = 0;
    MemoryParts into;
    std::function<void(Status)> done;  // called once, on the disk's thread where it has read something
};
using AskedPtr = std::shared_ptr<const Asked>;

/// Bytes that could not be read are damaged only where the disk reads others of the same file. A disk that reads
/// nothing may come back.
void end_unread(const AskedPtr& asked, const Error& why) {
    const auto block = std::make_shared<AlignedBytes>(disk_alignment);
    const RecordPlace begin_of_file{asked->place.segment, 0, disk_alignment};
    asked->segments->read(begin_of_file, 0, {block->span()}, [asked, block, why](const Status& end) {
        asked->done(make_error(end ? ErrorCode::corrupt : why.code, "a stored record cannot be read: " + why.message));
    });
}

/// Bytes that cannot be read are asked for once more. A second error is the disk's answer.
void ask(const AskedPtr& asked, bool again = false) {
    asked->segments->read(asked->place, asked->at, asked->into, [asked, again](Status end) {
        if (end || end.error().code != ErrorCode::io) return asked->done(std::move(end));
        // Segments belong to the store's thread.
        asked->thread.run([asked, again, why = end.error()] { again ? end_unread(asked, why) : ask(asked, true); });
    });
}

}  // namespace

const RecordHeader& KvStore::header_of(const Reading& reading) {
    return reading.header;
}

bool KvStore::is_current(const Reading& reading) const {
    const StoredRecord* const record = index().find(reading.record.name);
    return record != nullptr && record->place == reading.record.place;
}

/// The disk reads the record, and not the header that its key comes from, asked once more.
bool KvStore::is_sealed_for_ever(const StoredRecord& record) const {
    const auto key = key_of(record);
    return !key && (key.error().code == ErrorCode::io || key.error().code == ErrorCode::corrupt);
}

void KvStore::read(const StoreName& name, std::vector<int32_t> ids, std::function<void(Result<ReadingPtr>)> done) {
    const StoredRecord* const record = index().find(name);
    if (record == nullptr) return done(make_error(ErrorCode::not_found, "there is no such record"));
    const size_t bytes =
        RecordHeader::header_bytes(static_cast<size_t>(record->tokens), static_cast<size_t>(record->layers));
    records_.begin_reading(record->place);
    const ReadingPtr reading(new Reading{*record, {}, {}, AlignedBytes(bytes)},
                             [thread = thread_, this](Reading* ended) {
                                 thread.run([this, owned = std::shared_ptr<Reading>(ended)] {
                                     const RecordPlace& place = owned->record.place;
                                     if (records_.end_reading(place)) static_cast<void>(segments_->give_back(place));
                                 });
                             });
    if (keys_) {
        auto key = key_of(*record);
        if (!key && key.error().code == ErrorCode::corrupt) damaged(reading->record);
        if (!key && key.error().code != ErrorCode::io) return done(key.error());
        if (key) reading->key.emplace(*key);
    }
    const bool opens = !keys_ || reading->key;  // else the disk does not read its segment's header
    const std::span<std::byte> into = reading->bytes.span();
    const Done read = thread_.handing_over<Status>([this, reading, done, opens,
                                                    ids = std::move(ids)](const Status& end) {
        if (!end) {
            const ErrorCode code = end.error().code;  // the manifest says that this version wrote it
            const bool is_damaged = code == ErrorCode::corrupt || code == ErrorCode::unsupported;
            if (is_damaged && (opens || is_sealed_for_ever(reading->record))) damaged(reading->record);
            return done(end.error());
        }
        if (reading->header.ids.size() < ids.size() || !std::equal(ids.begin(), ids.end(), reading->header.ids.begin()))
            return done(make_error(ErrorCode::not_found, "a record of that name has other ids"));
        ++counts_.read;
        done(reading);
    });
    // On the disk's thread:
    const auto come = [reading, into, read, opens, kind = options_.kind](Status end) {
        if (!end) return read(std::move(end));
        if (!opens)
            return read(
                store::not_what_was_written());  // as other bytes that cannot be read, where the disk reads the file
        auto header = store::open_header(reading->record, reading->sealed_by(), into);
        if (!header) return read(header.error());
        header->kind.lower_layers = kind.lower_layers;
        if (header->kind != kind) return read(store::not_what_was_written());  // its name is one of this kind
        reading->header = std::move(*header);
        read(Status::ok());
    };
    ask(std::make_shared<Asked>(Asked{segments_.get(), thread_, record->place, 0, {into}, come}));
}

void KvStore::read_layer(const ReadingPtr& reading, size_t layer, MemoryParts into, Done done,
                         const std::function<void()>& come) {
    const RecordHeader& header = reading->header;
    const size_t bytes = bytes_of(into);
    assert(layer < header.layers.size() && bytes == round_up<uint64_t>(header.layer_bytes(), disk_alignment));
    counts_.bytes_read += bytes;
    const Done read = thread_.handing_over<Status>([this, reading, done = std::move(done)](const Status& end) {
        if (!end && end.error().code == ErrorCode::corrupt) damaged(reading->record);
        done(end);
    });
    struct Together {
        MemoryParts into;
        std::atomic<size_t> left;
        std::mutex mutex;
        Status first;  // that went wrong
    };
    const auto together = std::make_shared<Together>();
    together->into = std::move(into);
    together->left = ceil_div(bytes, piece_bytes);
    const auto prove = [reading, layer, &into = together->into] {
        return store::open_layer(reading->record, reading->header, layer, reading->sealed_by(), into);
    };
    for (size_t at = 0; at < bytes; at += piece_bytes) {
        const auto ended = [together, prove, read, thread = thread_, come](Status end) {
            if (!end) {
                const std::lock_guard lock(together->mutex);
                if (together->first) together->first = std::move(end);
            }
            if (--together->left > 0) return;
            thread.run(come);
            read(together->first ? prove() : together->first);
        };
        ask(std::make_shared<Asked>(Asked{segments_.get(), thread_, reading->record.place,
                                          header.layers[layer].offset + at,
                                          parts_within(together->into, at, piece_bytes), ended}));
    }
}

}  // namespace rondo
