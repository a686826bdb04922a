#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/turn_offer.hpp"
#include "memory/store/round_reader.hpp"

namespace rondo {

/// Brings back what is stored of turns' prompts: what is there, whether reading it is sooner than computing it, and
/// what has come in the end. Used by the store's thread.
class Restoring {
public:
    static constexpr uint64_t bytes_to_begin = uint64_t{1} << 20;
    /// A disk may bring nothing for so long, or for as long as computing would take, before it is taken for one that
    /// hangs.
    static constexpr double patience_min_s = 5.0, patience_max_s = 600.0;
    struct Options {
        std::function<double()> now;                      ///< seconds
        std::function<int64_t()> prompt_tokens;           ///< that are to be computed before those of another prompt
        std::function<void(std::function<void()>)> post;  ///< runs a task on the store's thread
        /// Bytes that the disk writes before it reads what is asked for now.
        std::function<uint64_t()> bytes_to_write = [] { return uint64_t{0}; };
        /// What a probe of the disk has measured; 0: nothing yet.
        std::function<double()> probed_seconds_per_byte = [] { return 0.0; };
        /// The disk's first answer, proof and copy take about as long as reading so many bytes. Without them a small
        /// restore would make large ones look slow.
        uint64_t bytes_to_begin = Restoring::bytes_to_begin;
    };
    Restoring(KvStore& store, RoundReader& reader, const KvPool& pool, Options options)
        : store_(store), reader_(reader), pool_(pool), options_(std::move(options)) {}

    /// Of a turn that was taken. Once `done` is called its KV has grown by what its arrival tells of; by nothing where
    /// nothing is stored, or is worth it. What is read for another turn already is waited for: it is read once, and
    /// lies there once. Meanwhile the offer waits, and may be taken back.
    void restore(const TurnOfferPtr& offer, std::function<void()> done);
    /// So many tokens of a tenant's prompt were asked for, and their turn has gone on before they were looked up.
    void came_too_late(const Tenant& tenant, int64_t tokens) { count(tenant, {.asked = tokens}); }
    /// Whoever waits for another one's reading and was taken back meanwhile waits no more.
    void let_go_of_taken_back();
    /// Whoever waits for another one's reading goes on without.
    void end_waiting();
    /// Those that have not ended. Once nothing is copied any more they may be told that nothing has come.
    std::vector<std::shared_ptr<Arrival>> under_way() const;
    /// What computing a prompt has taken, as somebody measured.
    void computed(const ComputedTokens& tokens) { rate_.learn(tokens); }

    struct Counts {
        int64_t asked = 0, found = 0;  ///< tokens of prompts that were missing, and those of them that were stored
        int64_t restored = 0;          ///< tokens that came back
        int64_t not_worth = 0;         ///< that were computed because that is sooner
        int64_t ahead = 0;             ///< that were to be computed while what stands behind them is read
        int64_t failed = 0;            ///< that could not be read, or were not what was written
        double seconds = 0.0;
        double ahead_seconds = 0.0;  ///< that what was read waited for what is computed ahead of it

        Counts& operator+=(const Counts& more);
    };
    const Counts& counts() const { return counts_; }
    /// Of a tenant's prompts since the start; nothing where there were too many tenants to tell.
    Counts counts_of(const Tenant& tenant) const;

private:
    struct Waiting {
        TurnOfferPtr offer;
        int64_t end = 0;  // of the tokens that it shares
        std::function<void()> done;
    };
    struct UnderWay {
        std::shared_ptr<Arrival> arrival;
        RoundReader::Ticket ticket;
        Tenant tenant;
        PrefixSpace space;
        std::optional<SequenceKv> kv;  // whose blocks are written to
        std::vector<WayBack::Round> rounds;
        std::map<std::pair<StoreName, StoreName>, size_t> records;  // of the rounds, in both groups: tokens
        uint64_t disk_bytes = 0;
        uint64_t bytes_before = 0;  // that the disk had to write before them
        double began = 0.0, came_at = 0.0, read_at = 0.0, patience = 0.0;
        BlockCounts beside;  // that its turn has beside them, or will have once it begins anew
        int64_t whole = 0;   // once it is read: where its tokens end that are there in every layer
        int priority = 0;    // of its turn
        bool is_read = false;
        bool waits_ahead = false;  // what stands before it is computed for it
        bool is_unwanted = false;  // by whom it was begun for; others may wait
        bool cancelled = false;    // nobody wants it any more
        bool hangs = false;        // nothing came for too long
        std::vector<Waiting> waiting = {};
    };
    UnderWay* that_reads(const StoredRound& round, const PrefixSpace& space);
    void look_up(const TurnOfferPtr& offer, std::function<void()> done);
    void look_up_again(std::vector<Waiting> waiting);
    void share(const Waiting& one, const SequenceKv& kv, int64_t whole);
    uint64_t disk_bytes_of(std::span<const WayBack::Round> rounds) const;
    ComputeRate rate_for(const WayBack& way) const;
    double seconds_before(const ComputeRate& rate) const;
    bool is_worth(const WayBack& way, const ComputeRate& rate, int64_t first, uint64_t disk_bytes);
    bool pool_holds_all() const;
    bool could_begin_anew(const Turn& turn, UnderWay& own);
    bool hangs(UnderWay& own) const;
    double saved_seconds_per_token(const WayBack& way) const;
    double seconds_per_byte() const;
    double seconds_per_byte_so_far() const;
    size_t rounds_computed_ahead(const Turn& turn, const WayBack& way, const ComputeRate& rate);
    void read(Turn& turn, WayBack way, size_t ahead, double patience);
    void over(uint64_t number, size_t whole);
    void computed_ahead(uint64_t number);
    void conclude(uint64_t number);
    void cancel(uint64_t number, bool hangs);
    void learn_load(uint64_t bytes, double seconds);

    KvStore& store_;
    RoundReader& reader_;
    const KvPool& pool_;
    const Options options_;
    std::map<uint64_t, UnderWay> under_way_;
    uint64_t last_ = 0;              // of their numbers
    uint64_t bytes_under_way_ = 0;   // from the disk, of all
    double over_at_ = 0.0;           // the last that ended and was read from the disk
    double seconds_per_byte_ = 0.0;  // 0: not measured
    ComputeRate rate_;
    void count(const Tenant& tenant, const Counts& more);

    Counts counts_;
    std::map<Tenant, Counts> by_tenant_;
};

}  // namespace rondo
