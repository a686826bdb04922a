#pragma once

#include <map>
#include <optional>
#include <vector>

#include "actors/handles.hpp"
#include "actors/prefill_order.hpp"
#include "actors/watch.hpp"

namespace rondo {

/// Feeds devices with pieces of prompts' chunks, one outstanding each. It changes between prompts where a chunk ends;
/// but one that is more urgent than those that have begun parks their chunks between two layers, and they go on behind
/// it.
class Prefill : public prefill_actor::base {
public:
    struct Options {
        double chunk_seconds = 0.1;  ///< pipeline.decode.step_ms_max
        /// New tokens up to which a prompt may be computed on a device that decodes, when that is sooner.
        int64_t at_home_tokens = 512;
        size_t open_max = 1;                              ///< chunks that a device can hold open
        caf::timespan timeout = std::chrono::minutes(2);  ///< of a chunk
    };
    /// The first runner is meant for prompts; `home` decodes, and may be the same.
    Prefill(caf::actor_config& config, device_runner_actor prompts, device_runner_actor home, cache_actor cache,
            const Options& options);
    behavior_type make_behavior() override;
    const char* name() const override { return "prefill"; }
    void on_exit() override;

private:
    struct Job {
        TurnPtr turn;
        caf::typed_response_promise<StageReply> promise;
        bool withdrawn = false;
        bool complete = false;     // only the cache's word is missing
        int64_t chunk_tokens = 0;  // of the chunk under way
        double chunk_seconds = 0.0;
    };
    struct Lane {
        device_runner_actor runner;
        PrefillOrder order;
        std::map<TurnId, Job> jobs;
        std::vector<TurnId> open;    // whose chunks stopped between layers, in order of beginning
        std::optional<TurnId> busy;  // whose piece the runner has
        Watch watch;
        double tokens_per_second = 0.0;  // measured
    };

    size_t choose_lane(const Turn& turn) const;
    std::optional<TurnId> choose(const Lane& lane) const;
    void pump(size_t lane);
    void send(size_t lane, const ChunkPtr& chunk);
    void look_later(size_t lane);
    void answered(size_t lane, const ChunkPtr& chunk, int64_t computed);
    void share(size_t lane, TurnId id);
    void finish(Lane& lane, TurnId id, StageReply::Outcome outcome, Error error = {});
    void withdraw(size_t lane, TurnId id);

    Options options_;
    cache_actor cache_;
    std::vector<Lane> lanes_;
};

}  // namespace rondo
