#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/store/disk_queue.hpp"
#include "memory/store/key_file.hpp"
#include "memory/store/manifest.hpp"
#include "memory/store/record_header.hpp"
#include "memory/store/record_index.hpp"
#include "memory/store/refusal.hpp"
#include "memory/store/segments.hpp"
#include "memory/store/store_folder.hpp"
#include "memory/store/store_keys.hpp"
#include "memory/store/store_thread.hpp"
#include "memory/store/stored_records.hpp"
#include "memory/store/written_today.hpp"

namespace rondo {

/// Rounds' KV on a disk, by what they hold. What is written is found once it is durable, and whoever reads it gets the
/// bytes that were written or an error: every layer is proved on its way.
///
/// Used by one thread. The disk's work is done elsewhere, and `done` is called by way of `post`.
class KvStore {
public:
    struct Options {
        std::string path;
        uint64_t bytes_max = 0;
        uint64_t bytes_free_min = uint64_t{1} << 30;  ///< of the disk, left to others
        uint64_t tenant_bytes_max = 0;                ///< 0: as much as there is
        uint64_t written_a_day_max = 0;               ///< 0: as much as there is to write
        int64_t unused_seconds_max = 14 * 24 * 3600;  ///< then it goes
        std::optional<KeyFile> keys = {};             ///< none: readable by whoever reads the disk
        KvKind kind;                                  ///< of what this process reads and writes
        Segments::Options segments = {};
        std::function<int64_t()> now;  ///< seconds since 1970
        StoreThread::Post post;
    };
    using Refusal = StoreRefusal;
    struct Counts {
        uint64_t bytes_written = 0, bytes_read = 0;
        int64_t written = 0, read = 0, evicted = 0, expired = 0;  ///< records
        int64_t never_read = 0;                                   ///< of those that were evicted or expired
        uint64_t bytes_never_read = 0;                            ///< of these
        int64_t damaged = 0;                                      ///< that were not what was written, and went
        int64_t foreign = 0;                                      ///< of other models and versions, found at the start
        std::array<int64_t, store_refusals> refused{};

        void gone(const StoredRecord& record) {
            if (record.read) return;
            ++never_read;
            bytes_never_read += record.place.bytes;
        }
    };
    using Done = std::function<void(Status)>;

    static Result<std::unique_ptr<KvStore>> open(Options options, DiskQueue& queue);
    KvStore(const KvStore&) = delete;
    KvStore& operator=(const KvStore&) = delete;

    /// By which a tenant is known here: his own name cannot be seen where there are keys.
    StoreName tenant_name(std::string_view tenant) const { return tenant_name(keys_, tenant); }
    static StoreName tenant_name(const std::optional<StoreKeys>& keys, std::string_view tenant);
    /// Names records of a group. What is not exact is a method's own.
    RecordIndex::NameOf names(LayerGroup group, std::string_view method) const;
    const RecordIndex& index() const { return records_.index(); }
    const KvKind& kind() const { return options_.kind; }
    /// For what is kept beside KV.
    Manifest& manifest() { return *manifest_; }
    const std::optional<StoreKeys>& keys() const { return keys_; }

    /// A record on its way to the disk. Nobody finds it before it is finished; if its last holder goes before that, its
    /// space is free again.
    class Writing;
    using WritingPtr = std::shared_ptr<Writing>;
    struct Begun {
        WritingPtr writing;  ///< none: refused
        Refusal refusal = Refusal::none;
    };
    /// Makes room for it. `header` says everything but the proofs; `waypoints` are those of RecordIndex::waypoints_of,
    /// by which parts of it are found.
    Begun begin(RecordHeader header, double saved_seconds, std::vector<StoreName> waypoints = {});
    /// `bytes` are the layer's, padded to `disk_alignment`; sealed in place, and left alone until `done`. Layers come
    /// in any order, each once.
    void write_layer(const WritingPtr& writing, size_t layer, std::span<std::byte> bytes, Done done);
    /// Once all layers of each are written: from `done` on those are found, in one commit, of which nothing went wrong.
    /// It hears of the first that did.
    void finish(std::vector<WritingPtr> writings, Done done);
    void finish(const WritingPtr& writing, Done done) { finish(std::vector{writing}, std::move(done)); }
    /// It will not be finished: from now on another one of its name can begin.
    void give_up(const Writing& writing);

    /// A record that is read. It keeps its space meanwhile, even if it is removed.
    class Reading;
    using ReadingPtr = std::shared_ptr<Reading>;
    /// Reads and proves its header, which must begin with these ids: not_found where it has others. What is damaged is
    /// removed.
    void read(const StoreName& name, std::vector<int32_t> ids, std::function<void(Result<ReadingPtr>)> done);
    static const RecordHeader& header_of(const Reading& reading);
    /// It has not been removed meanwhile.
    bool is_current(const Reading& reading) const;
    /// Into padded memory, of which each part is a multiple of `disk_alignment`; proved on the disk's thread. What is
    /// damaged is removed. `come` is told before that: the disk has nothing more to do for it.
    void read_layer(
        const ReadingPtr& reading, size_t layer, MemoryParts into, Done done,
        const std::function<void()>& come = [] {});

    /// Told of records that are about to be found. What it adds to the changes is committed with them, or not at all.
    using WhenFound = std::function<void(Manifest::Changes&, std::span<const StoreName>)>;
    void when_found(WhenFound told) { told_of_found_.push_back(std::move(told)); }
    /// Told of each record as soon as it is not found any more, whatever the reason.
    void when_gone(std::function<void(const StoreName&)> told) { told_of_gone_.push_back(std::move(told)); }
    /// It, and what it stands behind. The first use of a day is written with what is written next.
    void use(const StoreName& name);
    /// Not found from now on, whatever the disk says; those that have gone are left out. An error: what the disk
    /// refuses to remove leaves with those that leave next.
    Status remove(std::span<const StoreName> names);
    Status remove(const StoreName& name) { return remove({&name, 1}); }
    /// Tries again what the disk has refused to remove.
    Status remove_again();
    Status expire();
    /// Afterwards what was removed is in no file.
    Status forget_removed();

    const Counts& counts() const { return counts_; }
    uint64_t bytes() const { return segments_->bytes(); }
    /// What is written now is found at the next start: nobody has removed the folder, or what it lies in there.
    bool is_there() const { return folder_->is_there() && segments_->is_there() && manifest_->is_there(); }
    /// That one tenant may have.
    uint64_t tenant_bytes_max() const {
        return options_.tenant_bytes_max > 0 ? std::min(options_.tenant_bytes_max, options_.bytes_max)
                                             : options_.bytes_max;
    }
    bool repaired() const { return repaired_; }
    /// Lines for the operator, of the folder's key and of what is not read for want of it.
    const std::vector<std::string>& notes() const { return notes_; }
    void note(std::string line) { notes_.push_back(std::move(line)); }
    bool direct() const { return segments_->direct(); }

private:
    explicit KvStore(Options options);
    Result<bool> take_key(const std::optional<KeyFile>& file);
    Status say_what_is_not_read();
    Status load();
    Refusal make_room(const StoredRecord& record);
    std::vector<RecordIndex::Limit> limits_of(const StoredRecord& record, uint64_t most, uint64_t wanted,
                                              uint64_t free) const;
    bool let_go(const RecordIndex::Room& room);
    void tell_gone(const StoreName& name) const;
    Status give_back(const RecordPlace& place);
    Refusal drop_segments(const StoredRecord& record, uint64_t bytes);
    void damaged(const StoredRecord& record);
    Result<SealKey> key_of(const StoredRecord& record) const;
    bool is_sealed_for_ever(const StoredRecord& record) const;
    StoredRecord record_of(const RecordHeader& header, double saved_seconds) const;
    struct Finishing;
    using FinishingPtr = std::shared_ptr<Finishing>;
    void write_headers(const FinishingPtr& finishing);
    void sync(const FinishingPtr& finishing);
    void commit(Finishing& finishing);
    void put(Manifest::Changes& changes, const StoredRecord& record) const;
    void put_used(Manifest::Changes& changes);
    void count_refused_by_disk(int64_t records) { counts_.refused[static_cast<size_t>(Refusal::disk)] += records; }

    const Options options_;
    const uint64_t kind_;  // a checksum of options_.kind
    std::optional<StoreFolder> folder_;
    std::unique_ptr<Manifest> manifest_;
    std::optional<StoreKeys> keys_;  // the folder's own
    std::unique_ptr<Segments> segments_;
    StoredRecords records_;
    std::vector<WhenFound> told_of_found_;
    std::vector<std::function<void(const StoreName&)>> told_of_gone_;
    WrittenToday written_today_;
    std::set<uint64_t> unsynced_;  // segments of which the disk said once that they are not durable
    bool repaired_ = false;
    std::vector<std::string> notes_;
    Counts counts_;
    StoreThread thread_;  // the last member: it ends before all others
};

}  // namespace rondo
