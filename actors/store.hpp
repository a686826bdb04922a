#pragma once

#include "actors/handles.hpp"
#include "memory/kv_pool.hpp"
#include "memory/prefix_cache.hpp"

namespace rondo {

/// The shell around the prefix cache of one memory space.
class Store : public store_actor::base {
public:
    Store(caf::actor_config& config, KvPool& pool) : store_actor::base(config), pool_(pool), cache_(pool) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "store"; }

private:
    bool take(Turn& turn, int64_t left_free);
    void keep(Turn& turn);

    KvPool& pool_;
    PrefixCache cache_;
};

}  // namespace rondo
