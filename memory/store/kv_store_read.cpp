#include <cassert>

#include "config/checked.hpp"
#include "memory/store/careful_read.hpp"
#include "memory/store/kv_store_parts.hpp"
#include "memory/store/record_seal.hpp"

namespace rondo {

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
    // Another version's entry may have any number of layers. Such an entry never has a name of this version.
    if (record->layers <= 0 || bytes > record->place.bytes) {
        damaged(StoredRecord(*record));
        return done(store::not_what_was_written());
    }
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
        // As other bytes that cannot be read, where the disk reads the file.
        if (!opens) return read(store::not_what_was_written());
        auto header = store::open_header(reading->record, reading->sealed_by(), into);
        if (!header) return read(header.error());
        header->kind.lower_layers = kind.lower_layers;
        if (header->kind != kind) return read(store::not_what_was_written());  // its name is one of this kind
        reading->header = std::move(*header);
        read(Status::ok());
    };
    read_carefully(*segments_, thread_, reading->record.place, 0, {into}, come);
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
    // On the disk's thread:
    const auto ended = [reading, layer, into, read, thread = thread_, come](Status end) {
        thread.run(come);
        if (end) end = store::open_layer(reading->record, reading->header, layer, reading->sealed_by(), into);
        read(std::move(end));
    };
    read_carefully(*segments_, thread_, reading->record.place, header.layers[layer].offset, into, ended);
}

}  // namespace rondo
