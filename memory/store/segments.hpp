#pragma once

#include <array>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "memory/store/disk_queue.hpp"
#include "memory/store/store_folder.hpp"

namespace rondo {

/// Where a record lies.
struct RecordPlace {
    uint64_t segment = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    auto operator<=>(const RecordPlace&) const = default;
};

/// Files to which records are appended, one behind the other. Nothing is ever written twice to one place: after a start
/// there is a new file, and what a record gives back becomes a hole. One thread; the disk's work goes to a queue.
class Segments {
public:
    using Salt = std::array<std::byte, 32>;
    struct Options {
        uint64_t segment_bytes = uint64_t{256} << 20;  ///< a record may be larger; then it has a file of its own
        size_t open_files_max = 128;                   ///< a process may open so many, and its sockets count
    };
    static std::string name_of(uint64_t segment);
    /// Of a segment's file; 0 of any other.
    static uint64_t number_of(const std::string& name);
    /// Whether a record may lie so in a segment that ends there.
    static bool fits(const RecordPlace& place, uint64_t end);
    /// What stands in a segment's first `disk_alignment` bytes; corrupt where they are not its header.
    static Result<Salt> salt_in(uint64_t segment, std::span<const std::byte> header);

    /// Takes over the segments that are there.
    static Result<std::unique_ptr<Segments>> open(const StoreFolder& folder, DiskQueue& queue, const Options& options);
    Segments(const Segments&) = delete;
    Segments& operator=(const Segments&) = delete;
    ~Segments();

    /// A place behind everything else. Its space counts from now on.
    Result<RecordPlace> append(uint64_t bytes);
    /// `at` is counted from the record's begin; all are multiples of `disk_alignment`. The bytes stay where they are
    /// until `done`.
    void write(const RecordPlace& place, uint64_t at, std::span<const std::byte> bytes,
               std::function<void(Status)> done);
    void read(const RecordPlace& place, uint64_t at, MemoryParts into, std::function<void(Status)> done);
    /// What has been written to the record's segment is durable when `done` hears of it.
    void sync(const RecordPlace& place, std::function<void(Status)> done);
    /// Gives the record's space back: nobody reads it any more, and no byte of it is on the disk when it returns. An
    /// error: its bytes take space until the disk lets them go, which `clear_again` asks for.
    Status give_back(const RecordPlace& place);
    /// Tries each of those again, until one fails; the next time another one is the first. Of those in files that
    /// cannot be opened one is tried, and what becomes of it is no error.
    Status clear_again();
    /// Tries all of them. An error: some are still on the disk.
    Status clear_all_again();
    /// Nothing more is written to this one: what it was to make durable is not.
    void leave(uint64_t segment);
    /// Some that were given back are still on the disk.
    bool has_uncleared() const { return !uncleared_.empty(); }
    /// Whether space came back with each record so far. Else it comes back with a whole segment.
    bool makes_holes() const { return makes_holes_; }
    /// Of all segments, the oldest first.
    std::vector<uint64_t> numbers() const;
    uint64_t bytes_in(uint64_t segment) const;
    /// Gives back all of it: nobody reads any of it any more, or writes to it.
    Status remove(uint64_t segment);
    /// Gives back everything but these records, which lie within segments and not in each other: what a crash has left.
    Status keep_only(std::vector<RecordPlace> records);

    /// Of a segment, made with it: random, so that what is written in two segments is never the same under one key.
    /// corrupt where its header is damaged, or another version's: what is not sealed can be read without it. io where
    /// the disk does not read it: the next time it is asked again.
    Result<Salt> salt(uint64_t segment);
    /// Of a segment that is there.
    bool has_unread_salt(uint64_t segment) const { return files_.at(segment).has_unread_salt; }
    /// What is appended next to the last record is found at the next start: nobody has removed its file.
    bool is_there() const;
    bool exists(uint64_t segment) const { return files_.contains(segment); }
    /// Where the segment ends, behind its last record; 0 where there is none.
    uint64_t end_of(uint64_t segment) const;
    /// That segments take.
    uint64_t bytes() const { return bytes_; }
    size_t count() const { return files_.size(); }
    size_t open_files() const { return open_.size(); }
    bool direct() const { return direct_; }

private:
    /// Closed when the last one lets go of it, who may be the disk's work.
    using OpenFile = std::shared_ptr<const int>;
    struct File {
        OpenFile file;      // none: closed meanwhile
        uint64_t end = 0;   // behind its last record
        uint64_t used = 0;  // by records that were not given back
        uint64_t dead = 0;  // by what was, and is no hole yet
        std::optional<Salt> salt;
        bool has_unread_salt = false;  // the disk did not read it
    };
    /// Work of the disk's that has not ended.
    struct UnderWay {
        std::mutex mutex;
        std::condition_variable none;
        int64_t count = 0;
    };
    Segments(const StoreFolder& folder, DiskQueue& queue, const Options& options)
        : folder_(&folder), queue_(&queue), options_(options), direct_(folder.has_direct_files()) {}
    void submit(uint64_t segment, DiskWork work);
    Result<OpenFile> open_file(const std::string& name, int flags);
    Result<OpenFile> opened(uint64_t segment);
    void keep_open(uint64_t segment, OpenFile file);
    Status take_over(uint64_t segment);
    /// How many bytes of a header are there; < 0: the disk did not read it.
    static ssize_t read_salt(uint64_t segment, int from, File& file);
    Status begin_segment();
    /// False: the bytes are zeros, and their space does not come back.
    Result<bool> punch(uint64_t segment, uint64_t offset, uint64_t bytes, bool may_be_zeros = false);
    Status clear(const RecordPlace& place);
    Status clear_unopened(size_t count);
    void remove_empty();
    Status keep_in(uint64_t segment, std::span<const RecordPlace> records);

    const StoreFolder* folder_;
    DiskQueue* queue_;
    Options options_;
    bool direct_;
    bool makes_holes_ = true;
    std::map<uint64_t, File> files_;
    std::deque<RecordPlace> uncleared_;  // given back, and still on the disk
    std::deque<RecordPlace> unopened_;   // the same, in files that cannot be opened
    std::vector<uint64_t> open_;         // the one that was used last at the end
    uint64_t last_ = 0;                  // the youngest there ever was, as far as is known
    uint64_t writing_ = 0;               // to which records are appended; 0: none
    uint64_t bytes_ = 0;
    std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
};

}  // namespace rondo
