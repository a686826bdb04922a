#pragma once

#include <optional>

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
    bool take(Turn& turn, int64_t left_free);
    bool set_aside(Turn& turn, SequenceKv known, int64_t left_free);
    void keep(Turn& turn);
    void count() { load_->blocks_cached = cache_->blocks(); }

    const HomePtr home_;
    const std::shared_ptr<Load> load_;
    KvPool& pool_;
    std::optional<PrefixCache> cache_;
};

}  // namespace rondo
