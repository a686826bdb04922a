#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "memory/store/kv_store.hpp"
#include "memory/store/staging.hpp"
#include "memory/store/way_back.hpp"

namespace rondo {

/// Reads stored rounds into blocks of a pool, layer by layer. Where a disk can, it reads into the blocks themselves;
/// else what arrives is proved, then copied on the device's load stream. Used by the store's thread.
class RoundReader {
public:
    struct Options {
        size_t bytes_under_way = size_t{64} << 20;  ///< of all jobs; but one layer of a round at least
        std::function<void(std::function<void()>)> post;
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
        : store_(store), pool_(pool), device_(device), options_(std::move(options)), staging_(device) {}
    ~RoundReader() { *alive_ = false; }
    RoundReader(const RoundReader&) = delete;
    RoundReader& operator=(const RoundReader&) = delete;

    Ticket read(Job job);
    /// Nothing more is begun for it. It is over as soon as what is under way has ended, with no round whole.
    void cancel(const Ticket& ticket);

private:
    struct Reading;
    struct Record;
    using ReadingPtr = std::shared_ptr<Reading>;
    void open(const ReadingPtr& reading, size_t record);
    void go_on();
    bool read_some(const ReadingPtr& reading);
    void read_layer(const ReadingPtr& reading, size_t record, int layer);
    void read_staged(const ReadingPtr& reading, size_t record, int layer);
    void copy_layer(const ReadingPtr& reading, size_t record, int layer, const Staging::Piece& piece);
    void end_layer(const ReadingPtr& reading, size_t record, int layer, const Status& status);
    std::function<void(Status)> here(std::function<void(const Status&)> done) const;

    KvStore& store_;
    const KvPool& pool_;
    Device& device_;
    const Options options_;
    std::vector<ReadingPtr> readings_;  // the first comes first
    size_t under_way_ = 0;              // bytes
    Staging staging_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace rondo
