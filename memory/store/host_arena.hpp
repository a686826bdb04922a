#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "memory/store/busy_time.hpp"
#include "memory/store/memory_parts.hpp"
#include "memory/store/record_header.hpp"

namespace rondo {

/// Records of a store in host memory, in front of its disk: plain bytes that a GPU copies from. Bounded in bytes; what
/// was used least recently makes room. It takes memory in slabs as it fills, and cuts them into frames, of which a
/// record has as many as it needs: so there are no gaps of any size, and no allocation for each record.
///
/// Used by the store's thread. Others may let go of records.
class HostArena {
public:
    struct Options {
        uint64_t bytes_max = 0;
        size_t frame_bytes = size_t{256} << 10;  ///< a multiple of `disk_alignment`
        size_t slab_bytes = size_t{64} << 20;
    };
    struct Counts {
        uint64_t bytes_filled = 0;       ///< beside being written to the disk
        uint64_t bytes_copied = 0;       ///< to a device, in place of being read
        int64_t found = 0, evicted = 0;  ///< records
    };
    HostArena(Device& device, const Options& options);
    HostArena(const HostArena&) = delete;
    HostArena& operator=(const HostArena&) = delete;

    /// A record's memory, on its way into the arena or in it. Nobody else writes to it before its last holder lets go;
    /// then it is overwritten.
    class Record;
    using RecordPtr = std::shared_ptr<Record>;
    static MemoryParts layer_of(const Record& record, size_t layer);
    static size_t layer_bytes_of(const Record& record);

    /// Room for a record, which is found once it is kept. Null where there is none: then nobody goes.
    RecordPtr begin(const StoreName& name, std::vector<int32_t> ids, size_t layers, size_t layer_bytes);
    /// All its layers are written, and the store has the record. Nothing happens if it was dropped meanwhile.
    void keep(const RecordPtr& record);
    /// A record that begins with these ids; null where there is none.
    RecordPtr find(const StoreName& name, std::span<const int32_t> ids);
    /// It goes later than all others, if it is there.
    void use(const StoreName& name);
    bool has(const StoreName& name) const { return kept_.contains(name); }
    /// The store has it no more: it is not found from now on, nor kept if it is on its way.
    void drop(const StoreName& name);
    /// Around each copy from it to a device, and around each of what is written into it.
    void begin_copy(size_t bytes) { begin(copying_, counts_.bytes_copied, bytes); }
    void end_copy() { copying_.end(); }
    void begin_fill(size_t bytes) { begin(filling_, counts_.bytes_filled, bytes); }
    void end_fill() { filling_.end(); }
    double seconds_copying() const { return copying_.seconds(); }
    double seconds_filling() const { return filling_.seconds(); }

    void each(const std::function<void(const StoreName&, uint64_t bytes)>& each) const;
    uint64_t bytes() const { return bytes_; }
    size_t records() const { return kept_.size(); }
    const Counts& counts() const { return counts_; }

private:
    class Frames;
    struct Kept {
        RecordPtr record;
        uint64_t used = 0;  // its key in by_use_
    };
    static void begin(BusyTime& busy, uint64_t& counted, size_t bytes) {
        counted += bytes;
        busy.begin();
    }
    bool make_room(size_t frames);
    void remove(std::map<StoreName, Kept>::iterator kept);

    const Options options_;
    const std::shared_ptr<Frames> frames_;
    std::map<StoreName, Kept> kept_;
    std::map<uint64_t, StoreName> by_use_;                  // the first was used least recently
    std::map<StoreName, std::weak_ptr<Record>> under_way_;  // that are not kept yet
    uint64_t uses_ = 0;
    uint64_t bytes_ = 0;  // of what is kept
    Counts counts_;
    BusyTime copying_, filling_;
};

}  // namespace rondo
