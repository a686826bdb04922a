#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "memory/store/record_index.hpp"

namespace rondo {

/// The records of a store: on their way to the disk, found, read, and leaving. It knows who may go, whose name is
/// taken, and when the space of a record may be given back. Plain: no disk, no thread.
class StoredRecords {
public:
    /// Those that are found.
    const RecordIndex& index() const { return index_; }

    /// A record of that name is found or on its way, so another one cannot begin.
    bool has_name(const StoreName& name) const { return index_.find(name) != nullptr || writing_.contains(name); }
    /// It is on its way from now on. Its place is no other record's.
    void begin_writing(const StoredRecord& record) { writing_[record.name] = {record, false}; }
    /// It is on its way no more, whatever has become of it.
    void end_writing(const StoredRecord& record);
    /// Of records that are on their way and not found yet. Null: of all tenants.
    uint64_t bytes_on_their_way(const StoreName* tenant) const;
    /// It is found from now on. False: another one of its name is.
    bool add(const StoredRecord& record);

    /// As RecordIndex::make_room. Who is read stays, and so does what the record stands behind, or one on its way:
    /// without that they would not be found.
    RecordIndex::Room make_room(const StoredRecord& record, std::span<const RecordIndex::Limit> limits);
    void put_back(const RecordIndex::Room& room) { index_.put_back(room); }
    void gone(const RecordIndex::Room& room) { index_.gone(room); }
    /// Segments that must stay for that record, for those on their way and for those that are read.
    std::set<uint64_t> needed_segments(const StoredRecord& record) const;
    /// It leaves with its segment: the manifest has forgotten it, and its space needs nobody who gives it back.
    void drop(const StoreName& name) { index_.remove(name); }

    /// Not found from now on; its space is kept until the manifest has forgotten it. False: there is none of that name.
    bool leave(const StoreName& name);
    /// One that is not found, and that the manifest may have nevertheless.
    void leave_unfound(const StoredRecord& record);
    /// Out of the index, and still in the manifest.
    const std::vector<StoredRecord>& leaving() const { return leaving_; }
    std::vector<StoredRecord> take_leaving() { return std::exchange(leaving_, {}); }

    /// A record that is read keeps its space, whatever becomes of it.
    void begin_reading(const RecordPlace& place) { ++readers_[place].count; }
    /// True: its space may be given back now.
    bool end_reading(const RecordPlace& place);
    /// Nobody needs its space but those who read it. True: nobody does, so it may be given back now. Else the end of
    /// the last reading says so.
    bool let_go(const RecordPlace& place);

    /// As RecordIndex::use; whose use is to be told is kept until it is taken.
    void use(const StoreName& name, int64_t now, int64_t told_each);
    bool has_used() const { return !used_.empty(); }
    /// Those of them that are still found.
    std::vector<StoredRecord> take_used();

private:
    struct Writing {
        StoredRecord record;
        bool found = false;
    };
    struct Readers {
        int64_t count = 0;
        bool let_go = false;  // its space goes with the last of them
    };
    bool stands_before(const StoreName& name, const StoredRecord& begun) const;

    RecordIndex index_;
    std::map<StoreName, Writing> writing_;
    std::map<RecordPlace, Readers> readers_;
    std::vector<StoredRecord> leaving_;
    std::vector<StoreName> used_;
};

}  // namespace rondo
