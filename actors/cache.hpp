#pragma once

#include <chrono>
#include <optional>

#include "actors/expected.hpp"
#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "memory/prefix_cache.hpp"

namespace rondo {

/// The shell around the prefix cache of one memory space.
class Cache : public cache_actor::base {
public:
    Cache(caf::actor_config& config, RuntimePtr runtime, std::shared_ptr<Load> load)
        : cache_actor::base(config),
          runtime_(std::move(runtime)),
          load_(std::move(load)),
          pool_(*runtime_->pool),
          prefixes_(std::in_place, pool_) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "cache"; }
    /// A dead actor may be held for minutes by a timer; its blocks may not.
    void on_exit() override;

private:
    void take(AdmissionChoice& asked);
    size_t who_goes(const AdmissionChoice& asked) const;
    bool goes_first(const AdmissionChoice::Candidate& candidate) const;
    bool let_in(Turn& turn, int64_t running, bool spares_claims = false);
    bool set_aside(Turn& turn, SequenceKv known, int64_t running, bool spares_claims = false);
    bool make_room(const BlockCounts& blocks);
    void claim(const PromptClaim& claim);
    void keep(Turn& turn);
    double now() { return std::chrono::duration<double>(clock().now().time_since_epoch()).count(); }
    void count() { load_->blocks_cached = prefixes_->blocks(); }

    const RuntimePtr runtime_;
    const std::shared_ptr<Load> load_;
    KvPool& pool_;
    std::optional<PrefixCache> prefixes_;
    Expected expected_;
};

}  // namespace rondo
