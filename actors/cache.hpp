#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "actors/expected.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/store_figures.hpp"
#include "actors/timespan.hpp"
#include "memory/prefix_cache.hpp"

namespace rondo {

/// The shell around the prefix cache of one memory space.
class Cache : public cache_actor::base {
public:
    /// Without a store nothing is put away.
    Cache(caf::actor_config& config, RuntimePtr runtime, std::shared_ptr<Load> load, store_actor store,
          std::shared_ptr<StoreFigures> figures)
        : cache_actor::base(config),
          runtime_(std::move(runtime)),
          load_(std::move(load)),
          store_(std::move(store)),
          figures_(std::move(figures)),
          pool_(*runtime_->pool),
          prefixes_(std::in_place, pool_) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "cache"; }
    /// A dead actor may be held for minutes by a timer; its blocks may not.
    void on_exit() override;

private:
    void take(AdmissionDecision& asked);
    bool somebody_holds_blocks() const;
    size_t who_goes(const AdmissionDecision& asked) const;
    bool goes_first(const AdmissionDecision::Candidate& candidate) const;
    bool let_in(Turn& turn, int64_t running, bool spares_claims = false);
    bool set_aside(Turn& turn, SequenceKv known, int64_t running, bool spares_claims = false);
    bool set_aside(Turn& turn, int64_t tokens, int64_t running, bool spares_claims);
    bool make_room(const BlockCounts& blocks);
    void claim(const PromptClaim& claim);
    void keep(Computed& computed);
    void put_away(const Computed& computed);
    bool has_enough_to_do(int64_t blocks) const;
    void put_away_later(const Computed& computed);
    void go_on_putting(bool all = false);
    caf::typed_response_promise<int64_t> put_away(const CachedPromptPtr& prompt);
    int64_t forget_later(const ConversationKey& conversation);
    int64_t forget(const CachedPrompt& prompt);
    void give_to_store(PutAway what, std::function<void()> copied);
    bool ask_store_for_room();
    void store_down();
    void room_given();
    double now() { return seconds_of(clock().now()); }
    void count() { load_->blocks_cached = pool_.shape().blocks_of_each(prefixes_->blocks()).sum(); }

    RuntimePtr runtime_;
    const std::shared_ptr<Load> load_;
    store_actor store_;
    const std::shared_ptr<StoreFigures> figures_;
    KvPool& pool_;
    std::optional<PrefixCache> prefixes_;
    Expected expected_;
    int64_t putting_ = 0;  // blocks that the store holds at the most
    struct Later {
        uint64_t claim = 0;  // so that what is stored already goes first
        ConversationKey conversation;
        PrefixSpace space;
        std::vector<int32_t> ids;
        std::vector<int64_t> round_ends;
        ComputedTokens computed;
    };
    std::deque<Later> later_;                    // for the store, when it has less to do
    uint64_t later_claims_ = uint64_t{1} << 63;  // beyond all turns' ids
    bool room_asked_ = false;                    // of the store
    double seconds_per_token_ = 0.0;             // that the last turn took
    struct Waiting {
        BlockCounts blocks;
        caf::typed_response_promise<bool> promise;
    };
    std::vector<Waiting> waiting_;  // for the store's
};

}  // namespace rondo
