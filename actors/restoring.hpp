#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "actors/turn.hpp"
#include "memory/store/round_reader.hpp"
#include "memory/store/store_space.hpp"

namespace rondo {

/// Where a turn's KV is kept: its tenant's, and its method's own where that is not exact.
StoreSpace space_of(const Turn& turn);

/// Brings back what is stored of turns' prompts: what is there, whether reading it is sooner than computing it, and
/// what has come in the end. Used by the store's thread.
class Restoring {
public:
    Restoring(KvStore& store, RoundReader& reader, const KvPool& pool) : store_(store), reader_(reader), pool_(pool) {}

    /// The turn's KV has grown by what came; by nothing where nothing is stored, or is worth it. `done` may be called
    /// at once. The turn is the caller's again then.
    void restore(Turn& turn, std::function<double()> now, std::function<void()> done);
    /// Nothing more is read for it: it is done soon, with what it had.
    void cancel(TurnId turn);
    /// What computing a token has taken, as somebody measured.
    void computed(double seconds_per_token);

    struct Counts {
        int64_t asked = 0, found = 0;  ///< tokens of prompts that were missing, and those of them that were stored
        int64_t restored = 0;          ///< tokens that came back
        int64_t not_worth = 0;         ///< that were computed because that is sooner
        int64_t failed = 0;            ///< that could not be read, or were not what was written
        double seconds = 0.0;

        Counts& operator+=(const Counts& more);
    };
    const Counts& counts() const { return counts_; }
    /// Of a tenant's prompts since the start; nothing where there were too many tenants to tell.
    Counts counts_of(const Tenant& tenant) const;

private:
    struct Plan {
        RoundReader::Job job;
        int64_t known = 0, end = 0;  // tokens
        uint64_t bytes = 0;
    };
    std::optional<Plan> plan(Turn& turn);
    bool ends_with_whole_blocks(const SequenceKv& kv, int64_t first) const;
    bool is_worth(const Plan& plan);
    static bool grow(Turn& turn, const Plan& plan);
    void learn_load(uint64_t bytes, double seconds);

    KvStore& store_;
    RoundReader& reader_;
    const KvPool& pool_;
    std::map<TurnId, RoundReader::Ticket> under_way_;
    std::set<TurnId> cancelled_;                               // of them
    double seconds_per_token_ = 0.0, seconds_per_byte_ = 0.0;  // 0: not measured
    void count(const Tenant& tenant, const Counts& more);

    Counts counts_;
    std::map<Tenant, Counts> by_tenant_;
};

}  // namespace rondo
