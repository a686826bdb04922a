#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device.hpp"
#include "memory/store/host_arena.hpp"
#include "memory/store/kv_store.hpp"
#include "memory/store/staging.hpp"
#include "memory/store/store_thread.hpp"
#include "memory/store/way_back.hpp"

namespace rondo {

/// Writes sequences' rounds to a store, behind whatever computes: one record after the other, whose layers are copied
/// on the device's store stream as staging allows. Several are committed together where there are several. Used by the
/// store's thread.
class RoundWriter {
public:
    struct Sequence {
        PrefixSpace space;
        std::vector<int32_t> ids;
        SequenceKv kv;                   ///< of these ids; nobody writes to its blocks
        double seconds_per_token = 0.0;  ///< that computing them took
        int64_t turns = 1;               ///< as so many `give_up` counts it
        /// Its blocks are needed no more: all are copied, or it is given up.
        std::function<void()> copied = [] {};
        /// A record of it is on the disk, by this or an earlier writing.
        std::function<void(const StoreName&)> stored = [](const StoreName&) {};
    };
    struct Options {
        size_t staging_bytes = size_t{64} << 20;  ///< but one layer of a round at least
        StoreThread::Post post;
        HostArena* arena = nullptr;  ///< where what is written is kept as well; none: nowhere
    };
    RoundWriter(KvStore& store, KvPool& pool, Device& device, Options options)
        : store_(store),
          pool_(pool),
          device_(device),
          options_(std::move(options)),
          staging_(device),
          thread_(options_.post) {}
    RoundWriter(const RoundWriter&) = delete;
    RoundWriter& operator=(const RoundWriter&) = delete;

    void add(Sequence sequence);
    /// Lets go of all blocks, as soon as no copy is under way: what is not copied is not written. Returns how many
    /// turns that concerns.
    int64_t give_up();
    bool idle() const { return waiting_.empty() && written_.empty() && finishing_.empty(); }
    /// Calls once everything that was added is written or given up.
    void when_idle(std::function<void()> done);

private:
    struct Record;
    using RecordPtr = std::shared_ptr<Record>;
    void next();
    bool begin(const StoredRound& round, LayerGroup group);
    void copy_layers(const RecordPtr& record);
    void copy_layer(const RecordPtr& record);
    void copied(const RecordPtr& record, size_t layer, const Staging::Piece& piece, const Status& status);
    void copied_all(const RecordPtr& record);
    void end_layer(const RecordPtr& record, const Staging::Piece& piece, const Status& status);
    void end_record(const RecordPtr& record);
    bool is_or_may_be_found(const StoreName& name) const;
    void drop_what_leads_nowhere();
    void finish_written();
    void let_go(Sequence& sequence);
    void end_sequence();

    KvStore& store_;
    KvPool& pool_;
    Device& device_;
    const Options options_;
    std::deque<Sequence> waiting_;                    // the first is written
    std::vector<StoredRound> rounds_;                 // of it; none: it has not begun
    size_t record_ = 0;                               // of its rounds and their groups, which comes next
    PerGroup<std::optional<StoreName>> last_stored_;  // of it, that was there before
    RecordPtr busy_;                                  // that is on its way
    Staging staging_;
    bool gives_up_ = false;  // it is the last of its sequence
    struct Written {
        KvStore::WritingPtr writing;  // none: another one's
        StoreName name;
        std::function<void(const StoreName&)> stored;
        std::optional<StoreName> before = {};  ///< none: it is the first of its sequence
        HostArena::RecordPtr in_arena = {};
    };
    std::vector<Written> written_;    // records that wait to be found
    std::vector<Written> finishing_;  // others, which are about to be
    std::vector<std::function<void()>> idle_;
    StoreThread thread_;  // the last member: it ends before all others
};

}  // namespace rondo
