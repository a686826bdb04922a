#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "memory/store/host_arena.hpp"
#include "memory/store/kv_store.hpp"
#include "memory/store/staging.hpp"
#include "memory/store/store_thread.hpp"
#include "memory/store/way_back.hpp"

namespace rondo {

/// Reads stored rounds into blocks of a pool, layer by layer. Where a disk can, it reads into the blocks themselves;
/// else what arrives is proved, then copied on the device's load stream. What lies in host memory is copied from there.
/// Used by the store's thread.
class RoundReader {
public:
    struct Options {
        /// Of all jobs, on their way from the disk, and as many being proved and copied behind it; but one layer of a
        /// round at least.
        size_t bytes_under_way = size_t{32} << 20;
        StoreThread::Post post;
        HostArena* arena = nullptr;  ///< where what is read stays; none: nowhere
    };
    using Round = WayBack::Round;
    struct Job {
        /// Has room for all rounds; only what is not known is written to. Held until the last copy is over.
        SequenceKv kv;
        std::vector<Round> rounds;
        /// Layers [0, layers) of all rounds are in their blocks. Told each time that there are more, until something is
        /// missing.
        std::function<void(int layers)> arrived = [](int) {};
        /// As many of the first rounds are whole: all, unless something could not be read or was not what was written.
        std::function<void(size_t whole)> over = [](size_t) {};
    };
    using Ticket = std::weak_ptr<void>;

    RoundReader(KvStore& store, const KvPool& pool, Device& device, Options options)
        : store_(store),
          pool_(pool),
          device_(device),
          options_(std::move(options)),
          staging_(device),
          thread_(options_.post) {}
    RoundReader(const RoundReader&) = delete;
    RoundReader& operator=(const RoundReader&) = delete;

    /// Without rounds the job is over at once.
    Ticket read(Job job);
    /// Nothing more is begun for it. It is over as soon as what is under way has ended, with no round whole.
    void cancel(const Ticket& ticket);
    /// A record that lies in host memory needs none.
    bool needs_disk(const StoreName& name) const { return options_.arena == nullptr || !options_.arena->has(name); }

private:
    struct Reading;
    struct Record;
    struct Layer;
    using ReadingPtr = std::shared_ptr<Reading>;
    void open(const ReadingPtr& reading, size_t record);
    void go_on();
    void read_some(const ReadingPtr& reading, bool& disk_is_busy);
    void read_layer(const ReadingPtr& reading, size_t record, int layer);
    void read_staged(const ReadingPtr& reading, size_t record, int layer);
    void fill(Record& record, const Status& status);
    void copy_layer(const ReadingPtr& reading, size_t record, int layer, const Layer& from);
    std::function<void()> layer_comes(size_t bytes);
    void end_layer(const ReadingPtr& reading, size_t record, int layer, const Status& status);

    KvStore& store_;
    const KvPool& pool_;
    Device& device_;
    const Options options_;
    std::vector<ReadingPtr> readings_;  // the first comes first
    size_t read_ = 0, come_ = 0;        // bytes that are on their way from the disk, and being proved or copied
    Staging staging_;
    StoreThread thread_;  // the last member: it ends before all others
};

}  // namespace rondo
