#pragma once

#include <chrono>
#include <optional>

#include "actors/expected.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "memory/prefix_cache.hpp"

namespace rondo {

/// The shell around the prefix cache of one memory space.
class Store : public store_actor::base {
public:
    Store(caf::actor_config& config, HomePtr home, std::shared_ptr<Load> load)
        : store_actor::base(config),
          home_(std::move(home)),
          load_(std::move(load)),
          pool_(*home_->pool),
          cache_(std::in_place, pool_) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "store"; }
    /// A dead actor may be held for minutes by a timer; its blocks may not.
    void on_exit() override;

private:
    void take(Admission& asked);
    size_t who_goes(const Admission& asked) const;
    bool goes_first(const Admission::Candidate& candidate) const;
    bool let_in(Turn& turn, int64_t left_free, bool spares_claims = false);
    bool set_aside(Turn& turn, SequenceKv known, int64_t left_free, bool spares_claims = false);
    bool make_room(int64_t blocks);
    void claim(const PromptClaim& claim);
    void keep(Turn& turn);
    double now() { return std::chrono::duration<double>(clock().now().time_since_epoch()).count(); }
    void count() { load_->blocks_cached = cache_->blocks(); }

    const HomePtr home_;
    const std::shared_ptr<Load> load_;
    KvPool& pool_;
    std::optional<PrefixCache> cache_;
    Expected expected_;
};

}  // namespace rondo
